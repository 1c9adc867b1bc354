"""Two equal batches of envs, stepped side by side with the same actions: what a collector would see of them.

The two envs of a batch get different seeds and the same actions; the twin batch gets the same seeds. So envs that
differ where they should not, or do not where they should, stand out at once, and nothing has to be kept.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from unilab.envs.base import BatchEnv, EnvStep, Groups
from unilab.envs.finite import check_finite, check_finite_reset

ROUNDS = 300
_MOST_ROUNDS = 2_200
"""Enough for one episode of the usual time limits."""


@dataclass(slots=True)
class Walk:
    """What was seen."""

    rounds: int = 0
    seconds: float = 0.0  # spent in the steps of one batch
    ends: list[tuple[int, bool, bool]] = field(default_factory=list)  # length, terminated, truncated of each episode
    unmoved: int = 0  # episodes whose reset observation equals the final one
    twins_differ: str = ""  # where twins first differed, and when; empty: never
    seeds_differ: bool = False  # whether the two envs of a batch, with different seeds, ever differed

    @property
    def steps_per_s(self) -> float:
        """Env steps per second in one process."""
        return 2 * self.rounds / self.seconds if self.seconds else float("inf")


def walk(env: BatchEnv, twin: BatchEnv, limit_s: float) -> Walk:
    """Step both batches, of two envs each, with random actions.

    Args:
        env: the batch that is looked at and timed.
        twin: made in the same way.
        limit_s: give up sooner than usual where steps are slow; two rounds are always made.

    Raises:
        NonFinite: a NaN or an infinity.
        Exception: whatever the env raises.
    """
    seen, random = Walk(), np.random.default_rng(0)
    began = time.perf_counter()
    obs, other = env.reset(), twin.reset()
    check_finite_reset(obs, 0, np.zeros(2, np.int64))
    _compare(seen, "reset", obs, other)
    lengths = np.zeros(2, np.int64)
    while not _enough(seen, env, time.perf_counter() - began > limit_s):
        action = np.repeat(random.uniform(-1.0, 1.0, (1, env.spec.action_dim)).astype(np.float32), 2, axis=0)
        started = time.perf_counter()
        step = env.step(action)
        seen.seconds += time.perf_counter() - started
        seen.rounds += 1
        check_finite(step, 0, np.full(2, seen.rounds))
        twin_step = twin.step(action)
        _compare(seen, f"step {seen.rounds}", _arrays(step), _arrays(twin_step))
        lengths += 1
        for i in np.flatnonzero(step.terminated | step.truncated):
            seen.ends.append((int(lengths[i]), bool(step.terminated[i]), bool(step.truncated[i])))
            seen.unmoved += np.array_equal(step.obs["obs"][i], step.next_obs["obs"][i])
            lengths[i] = 0
    return seen


def _enough(seen: Walk, env: BatchEnv, late: bool) -> bool:
    if seen.rounds < 2 or (seen.rounds < ROUNDS and not late):
        return False
    limit = env.spec.max_episode_steps
    unfinished = not seen.ends and limit is not None and seen.rounds < min(limit + 1, _MOST_ROUNDS)
    return late or not unfinished


def _arrays(step: EnvStep) -> Groups:
    flags = {"terminated": step.terminated.astype(np.float32), "truncated": step.truncated.astype(np.float32)}
    return {**step.next_obs, "reward": step.reward, **flags, "next episode's obs": step.obs["obs"]}


def _compare(seen: Walk, when: str, mine: Groups, others: Groups) -> None:
    for name, values in mine.items():
        if not seen.twins_differ and not np.array_equal(values, others[name]):
            seen.twins_differ = f"the {name} of {when}"
        seen.seeds_differ |= not np.array_equal(values[0], values[1])
