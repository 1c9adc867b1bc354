"""A saved state continues bit for bit (``SavesState``)."""

import dataclasses

import mujoco
import numpy as np
import pytest

from unilab.envs.base import SavesState
from unilab.envs.generators import pack_generators, unpack_generators
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks import TASKS, register
from unilab.envs.tasks.half_cheetah import HalfCheetah
from unilab.errors import EnvError

N, LIMIT = 3, 11
LIMITED = {env_id: {"max_episode_steps": LIMIT} for env_id in TASKS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shaken(HalfCheetah):
    """Masses of its own in each env, and a memory: the sum of all actions, which is the last column."""

    def begin(self, sim):
        sim.memory["sum"] = np.zeros(sim.num_envs)
        sim.expand("body_mass")

    def reset(self, sim, i, rng):
        super().reset(sim, i, rng)
        sim.expand("body_mass")[i] = sim.model.body_mass * rng.uniform(0.5, 1.5)
        sim.set_const(np.array([i]))

    def update(self, sim):
        sim.memory["sum"] += sim.ctrl.sum(axis=1)

    def observe(self, sim, rows):
        return {"obs": np.column_stack([super().observe(sim, rows)["obs"], sim.memory["sum"][rows]])}


register("Shaken-v0", Shaken)


def envs():
    yield "unilab/Toy-v0", {"ends": "mixed", "length_step": 1}
    yield from LIMITED.items()
    yield "Shaken-v0", {"max_episode_steps": LIMIT}


def play(env, actions):
    """Every array of the steps, as bytes."""
    out = []
    for action in actions:
        step = env.step(action)
        arrays = [*step.obs.values(), *step.next_obs.values(), step.reward, step.terminated, step.truncated]
        out.append([array.tobytes() for array in (*arrays, *step.metrics.values())])
    return out


@pytest.mark.parametrize(("env_id", "kwargs"), list(envs()))
def test_a_restored_env_continues_with_the_same_bits(env_id, kwargs):
    cfg = EnvConfig(env=env_id, num_envs=N, env_kwargs=kwargs)
    env = make_env(cfg, seed=1)
    assert isinstance(env, SavesState)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (40, N, env.spec.action_dim)).astype(np.float32)
    env.reset()
    play(env, actions[:6])  # some first episodes have ended, others have not
    state = env.state()
    kept = {name: array.copy() for name, array in state.items()}
    straight = play(env, actions[6:])

    other = make_env(cfg, seed=2, threads=2)
    other.reset()
    play(other, actions[:17])
    obs = other.restore(kept)
    assert play(other, actions[6:]) == straight

    again = make_env(cfg, seed=3)
    for name, rows in again.restore(kept).items():  # in place of a reset
        np.testing.assert_array_equal(rows, obs[name])
    assert play(again, actions[6:]) == straight
    for name, array in state.items():
        assert array.tobytes() == kept[name].tobytes(), f"{name} is a copy"
        assert array.dtype in (np.float64, np.float32, np.int64, np.bool_)


def test_a_state_of_another_env_is_refused():
    state = make_env(EnvConfig(num_envs=3), seed=0).state()

    for cfg in (EnvConfig(num_envs=2), EnvConfig(env="Hopper-v5", num_envs=3), EnvConfig(env="Ant-v5", num_envs=3)):
        with pytest.raises(EnvError, match="the saved state does not fit this env: "):
            make_env(cfg, seed=0).restore(state)


def test_a_generator_with_a_half_used_draw_continues():
    rngs = [np.random.default_rng(seed) for seed in range(3)]
    rngs[1].integers(0, 100, dtype=np.uint32)
    rows = pack_generators(rngs)
    expected = [rng.integers(0, 2**31, 7, dtype=np.uint32).tolist() for rng in rngs]

    fresh = [np.random.default_rng(9) for _ in rngs]
    unpack_generators(rows, fresh)

    assert [rng.integers(0, 2**31, 7, dtype=np.uint32).tolist() for rng in fresh] == expected


def test_the_engines_state_is_mujocos_integration_state():
    env = make_env(EnvConfig(num_envs=2, backend="mujoco"), seed=0)
    env.reset()
    env.step(np.full((2, 6), 0.3, np.float32))
    rows = env.state()["engine"]

    data = mujoco.MjData(env.sim.model)
    mujoco.mj_setState(env.sim.model, data, rows[1], mujoco.mjtState.mjSTATE_INTEGRATION)
    np.testing.assert_array_equal(data.qpos, env.sim.qpos[1])
    np.testing.assert_array_equal(data.qvel, env.sim.qvel[1])
