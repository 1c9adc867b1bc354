"""The learning rate over a run."""

from __future__ import annotations

import torch
from torch import Tensor

from unilab.algos.base import LearnerConfig
from unilab.algos.curve import share_left


class LearningRate:
    """The step size of the present update, as a number and as a tensor.

    Args:
        cfg: gives the first rate, the schedule and the last rate.
        total_updates: of the whole run; the schedule ends with them.
        device: of the tensor.
    """

    def __init__(self, cfg: LearnerConfig, total_updates: int, device: torch.device) -> None:
        self._cfg = cfg
        self._total = max(total_updates, 1)
        self.value = cfg.learning_rate
        self.tensor = torch.tensor(cfg.learning_rate, dtype=torch.float64, device=device)  # []

    def at(self, updates: int) -> None:
        """Move to the rate of update number ``updates``, counted from 1 over the whole run."""
        if self._cfg.lr_schedule == "constant":
            return
        self.value = scheduled_rate(self._cfg, (updates - 1) / self._total)
        self.tensor.fill_(self.value)

    def scalar(self) -> Tensor:
        """The present rate to be logged, [] float32."""
        return self.tensor.float()


def scheduled_rate(cfg: LearnerConfig, progress: float) -> float:
    """The learning rate when the share ``progress`` of a run's updates is done; held once all are."""
    return cfg.learning_rate * share_left(cfg.lr_schedule, cfg.lr_final, progress)
