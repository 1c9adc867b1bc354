"""The learner: what every update rule needs around it. The rules differ, this does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from unilab.algos.base import LearnerConfig
from unilab.algos.compiled import Compute, prepare
from unilab.algos.inputs import PrivilegedInputs, SharedInputs
from unilab.algos.noise import learner_generator
from unilab.algos.schedule import LearningRate
from unilab.algos.state import Part, load_state, load_weights, save_state
from unilab.algos.targets import TD_ERRORS
from unilab.nets.actor import NormalizedActor
from unilab.spec import Minibatch, ReturnStats


class Rule(Protocol):
    """An algorithm: its networks and optimisers, and how one minibatch changes them."""

    policy_module: NormalizedActor
    """What is published to the collectors; see ``Policy.module``."""
    inputs: SharedInputs | PrivilegedInputs
    """From raw rows to what the networks see."""
    draws: int
    """Standard normal draws of an action's shape that an update takes for each row."""

    def update(self, batch: Minibatch, noise: Tensor, acts: bool) -> dict[str, Tensor]:
        """One update, as one graph: tensors in, in-place changes, nothing read back.

        Args:
            batch: B rows.
            noise: [draws, B, action_dim] float32, standard normal.
            acts: whether the actor moves too.

        Returns:
            0-d float32 tensors by scalar name, without gradient; and ``TD_ERRORS`` where the batch has weights.
        """

    def values(self, critic_obs: Tensor, action: Tensor) -> Tensor:
        """Both critics' values of normalised critic_obs [B, critic_dim], [2, B] float32, in scaled rewards."""

    def facts(self) -> dict[str, str]:
        """What the run's header says about this algorithm alone: resolved values by name."""

    def parts(self) -> dict[str, Part]:
        """All that decides future updates, by name."""


class Learner:
    """Owns networks, optimisers and noise; changes only through these calls.

    Args:
        rule: what an update is.
        cfg: hyperparameters shared by all algorithms.
        seed: of the run; its noise has a stream of its own.
        device: where the rule's tensors live.
        rate: the run's learning rate, the one that the rule's optimisers read.
        compute: how updates are computed.
    """

    def __init__(
        self, rule: Rule, cfg: LearnerConfig, *, seed: int, device: torch.device, rate: LearningRate, compute: Compute
    ) -> None:
        self.policy_module = rule.policy_module
        """What is published to the collectors; see ``Policy.module``."""
        self.updates = 0
        """Updates done over the whole run."""
        self.td_errors: Tensor | None = None
        """[B] float32, on the learner's device: how wrong the critics were, before the last update, about its rows;
        None where its rows had no weights. Of critics of values |q - target| in scaled rewards, of categorical ones
        KL(target | prediction) in nats; mean over both critics."""
        self._rule = rule
        self._inputs = rule.inputs
        self._cfg = cfg
        self._rate = rate
        self._noise = learner_generator(seed, device)
        self._step = prepare(rule.update, compute, device)

    def observe(self, obs: Tensor, critic_obs: Tensor | None) -> None:
        """Feed new env rows, each exactly once, to the normalisers.

        Args:
            obs: [n, obs_dim] float32 on CPU.
            critic_obs: [n, critic_dim] float32 on CPU, or None where the env has no such group.
        """
        self._inputs.observe(obs, critic_obs)

    def observe_returns(self, returns: ReturnStats) -> None:
        """Feed the discounted returns of new env steps, each exactly once, to the scale of rewards."""
        self._inputs.rewards.update(returns)

    def facts(self) -> dict[str, str]:
        """What the run's header says about the algorithm: resolved values by name."""
        cfg = self._cfg
        return {
            "hidden": "x".join(map(str, cfg.hidden)),
            "critics": "x".join(map(str, cfg.critic_widths)),
            "gamma": f"{cfg.gamma:g}",
            "lr": f"{cfg.learning_rate:g}",
            "policy delay": str(cfg.policy_delay),
            **({"privileged encoder": "x".join(map(str, encoder))} if (encoder := cfg.privileged_encoder) else {}),
            **self._rule.facts(),
        }

    def update(self, batch: Minibatch) -> dict[str, Tensor]:
        """One update; returns 0-d tensors on the learner's device by scalar name, without any sync."""
        self.updates += 1
        self._rate.at(self.updates)
        shape = (self._rule.draws, *batch.action.shape)
        noise = torch.randn(shape, generator=self._noise, device=batch.action.device)
        metrics = self._step(batch, noise, self.updates % self._cfg.policy_delay == 0)
        self.td_errors = metrics.pop(TD_ERRORS, None)
        return metrics | {"learning_rate": self._rate.scalar()} | self._inputs.rewards.scalars()

    @torch.no_grad()
    def q_values(self, critic_obs: Tensor, action: Tensor) -> Tensor:
        """Both critics' values without gradient.

        Args:
            critic_obs: [B, critic_dim or obs_dim] float32, raw, on the learner's device.
            action: [B, action_dim] float32 in [-1, 1].

        Returns:
            [2, B] float32, env units.
        """
        return self._inputs.rewards.in_env_units(self._rule.values(self._inputs.for_critic(critic_obs), action))

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides future updates, as a copy: nested dicts of tensors, numbers and strings."""
        return save_state(self._parts(), self.updates)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; parameters and buffers change in place.

        Raises:
            ConfigError: names, shapes, dtypes or the kind of device do not agree.
        """
        self.updates = load_state(self._parts(), state)

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Take over networks, normalisers and temperature of another learner's ``state_dict``, and nothing else.

        Raises:
            ConfigError: names, shapes or dtypes do not agree.
        """
        load_weights(self._parts(), state)

    def _parts(self) -> dict[str, Part]:
        return {"noise": self._noise, **self._inputs.parts, **self._rule.parts()}
