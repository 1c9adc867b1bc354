"""SAC's entropy temperature: learned or fixed, behind one set of calls."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unilab.algos.adam import Adam
from unilab.algos.schedule import LearningRate
from unilab.algos.state import Part
from unilab.errors import ConfigError


class LearnedTemperature:
    """alpha = exp(log_alpha), moved until the policy's entropy is the target entropy.

    Args:
        initial: alpha at the start, above 0.
        target_entropy: nats, summed over action dimensions.
        rate: Adam step size.
        betas: decay of Adam's moments.
        device: where log_alpha lies.
    """

    def __init__(
        self,
        initial: float,
        *,
        target_entropy: float,
        rate: LearningRate,
        betas: tuple[float, float],
        device: torch.device,
    ) -> None:
        self._log_alpha = nn.Parameter(torch.tensor(math.log(initial), dtype=torch.float32, device=device))
        self._optimizer = Adam([self._log_alpha], rate, betas=betas)
        self._target_entropy = target_entropy
        self.parts: dict[str, Part] = {
            "temperature": nn.ParameterDict({"log_alpha": self._log_alpha}),
            "temperature_optimizer": self._optimizer,
        }

    def alpha(self) -> Tensor:
        """The present temperature, [] float32 without gradient."""
        return self._log_alpha.detach().exp()

    def step(self, log_prob: Tensor) -> dict[str, Tensor]:
        """One gradient step on the log-probabilities [B] of freshly sampled actions."""
        loss = temperature_loss(self._log_alpha, log_prob.detach(), self._target_entropy)
        self._optimizer.descend(loss)
        return {"ent_coef_loss": loss.detach()}


class FixedTemperature:
    """A constant alpha."""

    def __init__(self, alpha: float, *, device: torch.device) -> None:
        self._alpha = torch.tensor(alpha, dtype=torch.float32, device=device)
        self.parts: dict[str, Part] = {}

    def alpha(self) -> Tensor:
        """The temperature, [] float32."""
        return self._alpha

    def step(self, log_prob: Tensor) -> dict[str, Tensor]:
        """Nothing to learn."""
        return {}


Temperature = LearnedTemperature | FixedTemperature


def temperature_loss(log_alpha: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """Rises with log_alpha while the entropy, -mean log_prob, is above the target; [] float32.

    The gradient is taken of log_alpha, not of alpha, so that the step size does not depend on alpha.

    Source: Haarnoja et al. 2018, arXiv:1812.05905, equation 18, in Stable-Baselines3's form.
    """
    return -(log_alpha * (log_prob + target_entropy)).mean()


def parse_ent_coef(value: float | str) -> tuple[bool, float]:
    """Whether the temperature is learned, and its first value.

    Args:
        value: ``"auto"`` (learned, from 1), ``"auto_X"`` (learned, from X) or a number (fixed).

    Raises:
        ConfigError: none of these, or a number that cannot be a temperature.
    """
    text = str(value)
    learned = text.startswith("auto")
    number = "1.0" if text == "auto" else text.removeprefix("auto_")
    try:
        initial = float(number)
    except ValueError:
        initial = math.nan
    if not math.isfinite(initial) or initial < 0.0 or (learned and initial == 0.0):
        raise ConfigError(
            f"ent_coef={value!r} is no temperature; use 'auto', 'auto_0.1' (learned, starting there) "
            "or a fixed number of at least 0"
        )
    return learned, initial


def check_temperature(section: str, ent_coef: float | str, target_entropy: float | str) -> None:
    """Refuse what no temperature can be made of.

    Raises:
        ConfigError: names the section of the config, the option and its value.
    """
    parse_ent_coef(ent_coef)
    number = isinstance(target_entropy, int | float) and math.isfinite(target_entropy)
    if target_entropy != "auto" and not number:
        raise ConfigError(f"{section}.target_entropy={target_entropy!r} must be 'auto' or a number of nats")


def make_temperature(
    ent_coef: float | str,
    *,
    target_entropy: float,
    rate: LearningRate,
    betas: tuple[float, float],
    device: torch.device,
) -> Temperature:
    """The temperature that ``ent_coef`` describes; see ``parse_ent_coef``."""
    learned, initial = parse_ent_coef(ent_coef)
    if learned:
        return LearnedTemperature(initial, target_entropy=target_entropy, rate=rate, betas=betas, device=device)
    return FixedTemperature(initial, device=device)
