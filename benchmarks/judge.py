"""One deterministic judge for everyone: the mean return of a snapshot on starts that are the same for all.

Gymnasium's own env, one episode an env, no exploration noise. Whoever is judged, the loop is this one; a snapshot
brings only its policy, as its own library would act.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
from peers import Act, Peer, Player

from unilab.envs.mujoco_log import model_warnings
from unilab.restore import restore_policy


class Judge:
    """Plays snapshots of one contender.

    Args:
        env_id: of Gymnasium.
        episodes: starts that every snapshot plays from.
        seed: of these starts.
        peer: whose snapshots; None: unilab's checkpoints.
    """

    def __init__(self, env_id: str, episodes: int, seed: int, peer: Peer | None) -> None:
        with model_warnings():
            self._envs = [gym.make(env_id) for _ in range(episodes)]
            self._load = load_unilab if peer is None else Player(peer, env_id).load
        self._seeds = [int(one.generate_state(1)[0]) for one in np.random.SeedSequence(seed).spawn(episodes)]

    def returns(self, snapshot: Path) -> np.ndarray:
        """[episodes] float64, env units, undiscounted."""
        act = self._load(snapshot)
        obs = np.stack([env.reset(seed=seed)[0] for env, seed in zip(self._envs, self._seeds, strict=True)])
        sums, alive = np.zeros(len(self._envs)), np.ones(len(self._envs), np.bool_)
        while alive.any():
            actions = act(obs)
            for i in np.flatnonzero(alive):
                obs[i], reward, terminated, truncated, _ = self._envs[i].step(actions[i])
                sums[i] += float(reward)
                alive[i] = not (terminated or truncated)
        return sums


def load_unilab(checkpoint: Path) -> Act:
    """The policy of a checkpoint, in the env's own units."""
    restored = restore_policy(checkpoint)
    low, high = (
        np.asarray(bound, np.float32) for bound in (restored.spec.env.action_low, restored.spec.env.action_high)
    )

    def act(obs: np.ndarray) -> np.ndarray:
        action = restored.policy.act({"obs": obs.astype(np.float32)})
        return low + (action + 1) / 2 * (high - low)

    return act
