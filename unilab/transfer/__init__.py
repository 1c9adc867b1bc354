"""Batches from the ring to the learner's device, one tick ahead."""

from unilab.transfer.batch import Batch
from unilab.transfer.copy_cpu import CpuCopier
from unilab.transfer.copy_cuda import CudaCopier
from unilab.transfer.pipeline import Pipeline
from unilab.transfer.slots import Copier, Slot, SlotState

__all__ = ["Batch", "Copier", "CpuCopier", "CudaCopier", "Pipeline", "Slot", "SlotState"]
