import math

import pytest
import torch

from unilab.algos.base import LearnerConfig
from unilab.algos.schedule import LearningRate, scheduled_rate
from unilab.errors import ConfigError


@pytest.mark.parametrize(
    ("schedule", "progress", "share"),
    [
        ("constant", 0.7, 1.0),
        ("linear", 0.0, 1.0),
        ("linear", 0.25, 0.8),
        ("linear", 1.0, 0.2),
        ("linear", 1.5, 0.2),
        ("cosine", 0.0, 1.0),
        ("cosine", 0.5, 0.6),
        ("cosine", 0.25, 0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2),
        ("cosine", 1.0, 0.2),
    ],
)
def test_the_rate_falls_as_the_schedule_says(schedule, progress, share):
    final = 0.0 if schedule == "constant" else 0.2
    cfg = LearnerConfig(learning_rate=3.0, lr_schedule=schedule, lr_final=final)

    assert scheduled_rate(cfg, progress) == pytest.approx(3.0 * share, rel=1e-12)


def test_it_is_a_function_of_the_update_alone_so_that_a_run_that_goes_on_has_the_same():
    cfg = LearnerConfig(learning_rate=1.0, lr_schedule="linear")
    straight, again = (LearningRate(cfg, 10, torch.device("cpu")) for _ in range(2))
    for update in range(1, 8):
        straight.at(update)

    again.at(7)

    assert straight.value == again.value == straight.tensor.item() == pytest.approx(0.4)


def test_a_final_rate_without_a_schedule_is_refused():
    with pytest.raises(ConfigError, match=r"lr_final=0\.5 .* no effect"):
        LearnerConfig(lr_final=0.5)


@pytest.mark.parametrize(
    "bad", [{"adam_betas": (0.9, 1.0)}, {"weight_decay": -1.0}, {"max_grad_norm": math.nan}, {"lr_final": 2.0}]
)
def test_what_cannot_work_is_refused_by_name(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        LearnerConfig(**bad)
