"""One training run of a peer, Stable-Baselines3 or SBX, in a process of its own.

    python benchmarks/peers.py SPEC.json

Imports nothing of unilab: what a peer's process imports is on its clock. On the way it writes snapshots of its policy
(for ``judge.py``) or rows of progress, with unilab's column names (for ``bench_end_to_end.py``).
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Act = Callable[[Any], Any]
"""Observations [n, obs_dim] to actions [n, action_dim] between the env's bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A library's algorithm and its settings, by the library's own names."""

    library: Literal["sb3", "sbx"]
    algo: Literal["SAC", "CrossQ", "PPO"]
    num_envs: int = 1
    normalize: bool = False  # observations and rewards, as the zoo's ``normalize: true``
    relu: bool = False  # as activation_fn; in PPO, whose default is tanh
    settings: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)  # policy_kwargs


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRun:
    """What ``peers.py`` is asked for."""

    peer: Peer
    env: str
    seed: int
    total_steps: int
    every: int  # env steps between snapshots or rows
    snapshots: str | None = None  # folder
    progress: str | None = None  # csv file

    def write(self, path: Path) -> None:
        """As the file that the process reads."""
        path.write_text(json.dumps(asdict(self)))


def main(path: str) -> None:
    """Train."""
    content = json.loads(Path(path).read_text())
    run = PeerRun(**content | {"peer": Peer(**content["peer"])})
    model = build(run.peer, run.env, run.seed)
    from stable_baselines3.common.callbacks import BaseCallback

    class OnTheWay(BaseCallback):
        """Writes when due."""

        due = run.every
        begun: tuple[int, int, float] | None = None

        def _on_step(self) -> bool:
            if self.num_timesteps >= self.due:
                self.due = self.num_timesteps + run.every
                if run.snapshots:
                    write_snapshot(self.model, run.peer, Path(run.snapshots), self.num_timesteps)
                if run.progress:
                    self._write_row(run.progress)
            return True

        def _write_row(self, path: str) -> None:
            steps, updates, now = self.num_timesteps, self.model._n_updates, time.perf_counter()
            if self.begun is not None:
                spent = now - self.begun[2]
                with open(path, "a") as out:
                    out.write(f"{steps},{(steps - self.begun[0]) / spent},{(updates - self.begun[1]) / spent}\n")
            else:
                Path(path).write_text("env_steps,time/fps,perf/updates_per_s\n")
            self.begun = steps, updates, now

    model.learn(run.total_steps, callback=OnTheWay())


def build(peer: Peer, env_id: str, seed: int, **changes: Any) -> Any:
    """The library's model; ``changes`` go over the settings."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    env = make_vec_env(env_id, peer.num_envs, seed=seed)
    settings = {**peer.settings, **changes}
    if peer.normalize:
        env = VecNormalize(env, gamma=settings.get("gamma", 0.99))
    policy = dict(peer.policy)
    if peer.relu:
        policy["activation_fn"] = _relu(peer.library)
    return _class(peer)("MlpPolicy", env, seed=seed, device="cpu", policy_kwargs=policy, **settings)


def write_snapshot(model: Any, peer: Peer, folder: Path, env_steps: int) -> None:
    """Write ``<env_steps>.pickle``: the actor's arrays and the normaliser's; it appears whole."""
    normalizer = model.get_vec_normalize_env()
    rms = (normalizer.obs_rms.mean, normalizer.obs_rms.var) if normalizer else None
    draft = folder / f".{env_steps}"
    draft.write_bytes(pickle.dumps({"actor": _weights(model, peer), "rms": rms}))
    os.replace(draft, folder / f"{env_steps}.pickle")


class Player:
    """Plays snapshots of one peer, deterministically, as the library itself predicts."""

    def __init__(self, peer: Peer, env_id: str) -> None:
        room = {} if peer.algo == "PPO" else {"buffer_size": 1000}
        self._model, self._peer = build(peer, env_id, 0, **room), peer

    def load(self, path: Path) -> Act:
        """The policy of a snapshot."""
        import numpy as np

        content = pickle.loads(path.read_bytes())
        _load_weights(self._model, self._peer, content["actor"])

        def act(obs: Any) -> Any:
            if content["rms"] is not None:
                mean, var = content["rms"]
                obs = np.clip((obs - mean) / np.sqrt(var + 1e-8), -10, 10)
            return self._model.predict(obs.astype(np.float32), deterministic=True)[0]

        return act


def _class(peer: Peer) -> Any:
    if peer.library == "sb3":
        import stable_baselines3 as library
    else:
        import sbx as library
    return getattr(library, peer.algo)


def _relu(library: str) -> Any:
    if library == "sb3":
        from torch.nn import ReLU

        return ReLU
    from flax.linen import relu

    return relu


def _weights(model: Any, peer: Peer) -> Any:
    if peer.library == "sb3":
        return {name: value.numpy().copy() for name, value in _module(model, peer).state_dict().items()}
    import jax
    import numpy as np

    state = model.policy.actor_state
    return {name: jax.tree.map(np.asarray, getattr(state, name)) for name in _parts(state)}


def _load_weights(model: Any, peer: Peer, weights: Any) -> None:
    if peer.library == "sb3":
        import torch

        _module(model, peer).load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    else:
        model.policy.actor_state = model.policy.actor_state.replace(**weights)


def _module(model: Any, peer: Peer) -> Any:
    return model.policy if peer.algo == "PPO" else model.policy.actor


def _parts(state: Any) -> list[str]:
    return [name for name in ("params", "batch_stats") if hasattr(state, name)]


if __name__ == "__main__":
    main(sys.argv[1])
