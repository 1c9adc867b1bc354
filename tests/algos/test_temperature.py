import math

import pytest
import torch

from unilab.algos.base import LearnerConfig
from unilab.algos.schedule import LearningRate
from unilab.algos.temperature import make_temperature, parse_ent_coef
from unilab.errors import ConfigError


def temperature(ent_coef="auto_0.5", target_entropy=-2.0, learning_rate=0.1):
    device = torch.device("cpu")
    rate = LearningRate(LearnerConfig(learning_rate=learning_rate), 0, device)
    return make_temperature(ent_coef, target_entropy=target_entropy, rate=rate, betas=(0.9, 0.999), device=device)


@pytest.mark.parametrize(
    ("value", "parsed"),
    [
        ("auto", (True, 1.0)),
        ("auto_0.1", (True, 0.1)),
        (0.2, (False, 0.2)),
        ("0.2", (False, 0.2)),
        (0, (False, 0.0)),
    ],
)
def test_auto_is_learned_and_a_number_is_fixed(value, parsed):
    assert parse_ent_coef(value) == parsed


@pytest.mark.parametrize("value", ["automatic", "auto_", "auto_x", "auto_0", "auto_-1", -0.1, "nan", math.inf, ""])
def test_what_cannot_be_a_temperature_is_refused_by_name(value):
    with pytest.raises(ConfigError, match="ent_coef"):
        parse_ent_coef(value)


@pytest.mark.parametrize(("entropy", "direction"), [(-3.0, 1), (-1.0, -1)])
def test_the_temperature_rises_below_the_target_entropy_and_falls_above(entropy, direction):
    learned = temperature(target_entropy=-2.0)
    before = learned.alpha().item()

    learned.step(torch.full((4,), -entropy))

    assert (learned.alpha().item() - before) * direction > 0


def test_a_step_moves_log_alpha_by_the_learning_rate_and_alpha_is_its_exponential():
    learned = temperature("auto_0.5", learning_rate=0.1)

    metrics = learned.step(torch.full((4,), 3.0))  # entropy -3, target -2; Adam's first step has the full size

    assert learned.alpha().item() == pytest.approx(0.5 * math.exp(0.1), rel=1e-5)
    assert metrics["ent_coef_loss"].item() == pytest.approx(-math.log(0.5) * (3.0 - 2.0))


def test_a_fixed_temperature_stays_and_reports_no_loss():
    fixed = temperature(0.2)

    assert fixed.step(torch.full((4,), 3.0)) == {}
    assert fixed.alpha().item() == pytest.approx(0.2)
    assert fixed.parts == {}
