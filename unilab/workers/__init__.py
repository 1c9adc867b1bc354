"""Processes around the learner: started, watched and ended here."""

from unilab.workers.child import Link
from unilab.workers.collector import Collector, CollectorJob, collector_main
from unilab.workers.evaluator import EvaluationJob, EvaluationResult, evaluator_main
from unilab.workers.process import Worker

__all__ = [
    "Collector",
    "CollectorJob",
    "EvaluationJob",
    "EvaluationResult",
    "Link",
    "Worker",
    "collector_main",
    "evaluator_main",
]
