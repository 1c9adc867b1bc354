"""Rules of the native backend's env: episodes, blow-ups, the log."""

import os
from dataclasses import dataclass

import mujoco
import numpy as np
import pytest

from unilab.envs.mujoco_log import LOG_NAME
from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.envs.rollout import EpisodeStats
from unilab.envs.tasks import TASKS, register
from unilab.envs.tasks.base import Outcome, Task
from unilab.errors import EnvError

CART = """<mujoco><option timestep='0.002'/><worldbody><body pos='0 0 1'>
<joint name='s' type='slide' axis='1 0 0'/><geom size='.1' mass='1'/></body></worldbody>
<actuator><motor joint='s' gear='1e11' ctrlrange='-1 1' ctrllimited='true'/></actuator></mujoco>"""
"""An acceleration above 1e10 makes MuJoCo put the data back (case a18): full control does."""


@dataclass(frozen=True, kw_only=True)
class Cart(Task):
    """Starts at 0.3; the observation is position, velocity and time; the reward is 1."""

    frame_skip: int = 5
    contact: bool = False

    def load(self):
        return mujoco.MjModel.from_xml_string(CART)

    def reset(self, sim, i, rng):
        sim.qpos[i] = 0.3

    def outcome(self, sim, action, before):
        return Outcome(np.ones(sim.num_envs), np.zeros(sim.num_envs, np.bool_), {"time": sim.time})

    def observe(self, sim, rows):
        return {"obs": np.column_stack([sim.qpos[rows], sim.qvel[rows], sim.time[rows]])}


@dataclass(frozen=True, kw_only=True)
class CartWithForces(Cart):
    fields = ("cfrc_ext",)


@dataclass(frozen=True, kw_only=True)
class Broken(Cart):
    """Its state is ``value`` after a step at full control; without MuJoCo's noticing it."""

    value: float = float("nan")

    def advance(self, sim, action):
        sim.step(self.frame_skip)
        sim.qvel[action[:, 0] > 0.9] = self.value


@dataclass(frozen=True, kw_only=True)
class Raising(Cart):
    def update(self, sim):
        if sim.episode_steps[0] == 3:
            raise ValueError("boom")


@dataclass(frozen=True, kw_only=True)
class Targets(Cart):
    """Actions are targets from 0.1 to 0.5, which the cart is put to; critics also see the last one, a memory."""

    def action_bounds(self, model):
        return np.float32([0.1]), np.float32([0.5])

    def begin(self, sim):
        sim.memory["target"] = np.zeros((sim.num_envs, 1))

    def reset(self, sim, i, rng):
        sim.memory["target"][i] = sim.qpos[i] = rng.uniform(0.1, 0.5)

    def advance(self, sim, action):
        sim.memory["target"][:] = sim.qpos[:] = action
        sim.step(1)

    def observe(self, sim, rows):
        obs = super().observe(sim, rows)["obs"]
        return {"obs": obs, "critic": np.column_stack([obs, sim.memory["target"][rows]])}


@pytest.fixture(autouse=True)
def carts():
    register("Targets-v0", Targets)
    register("Broken-v0", Broken)
    register("Raising-v0", Raising)
    register("Cart-v0", Cart)
    register("CartWithForces-v0", CartWithForces)
    yield
    for name in ("Cart-v0", "CartWithForces-v0", "Broken-v0", "Raising-v0", "Targets-v0"):
        del TASKS[name]


def cart(n, env="Cart-v0", log_dir=None, threads=1, **kwargs):
    cfg = EnvConfig(env=env, num_envs=n, env_kwargs=kwargs)
    return make_env(cfg, seed=0, log_dir=log_dir, threads=threads)


def act(*values):
    return np.array(values, np.float32)[:, None]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("env_id", ["Cart-v0", "CartWithForces-v0"])
def test_a_blow_up_ends_its_episode_and_no_row_shows_where_the_engine_put_it(env_id, threads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = cart(3, env_id, threads=threads, stagger=False)
    stats = EpisodeStats(3, env.spec.metric_names)
    obs, rows, episodes = env.reset()["obs"], 0, []

    for k in range(1, 31):
        blow = k % 3 == 0 and k <= 15  # five times, in env 1
        step = env.step(act(0, 1 if blow else 0, 0))
        episodes.extend(stats.add(step))
        rows += len(step.reward)
        assert step.terminated.tolist() == [False, blow, False]
        assert step.metrics["unstable"].tolist() == [0, blow, 0]
        assert not step.truncated.any()
        if blow:
            np.testing.assert_array_equal(step.next_obs["obs"][1], obs[1])
            np.testing.assert_array_equal(step.obs["obs"][1], np.float32([0.3, 0, 0]))
            assert step.reward.tolist() == [1, 0, 1]
            assert np.isnan(step.metrics["time"][1])
        assert (step.next_obs["obs"][:, 0] == np.float32(0.3)).all(), "never the model's default, 0"
        obs = step.obs["obs"]

    assert rows == 90
    unstable = [row[stats.columns.index("unstable")] for row in episodes]
    assert unstable == [1.0] * 5, "each episode that blew up says so"
    assert not os.listdir(tmp_path), "nothing in the current folder"


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 1e60])
def test_a_state_that_is_nan_or_huge_after_the_last_substep_counts_as_a_blow_up(value):
    env = cart(3, "Broken-v0", value=value)
    obs = env.reset()["obs"]
    step = env.step(act(0, 0, 1))

    assert step.terminated.tolist() == step.metrics["unstable"].astype(bool).tolist() == [False, False, True]
    np.testing.assert_array_equal(step.next_obs["obs"][2], obs[2])
    assert np.isfinite(step.obs["obs"]).all()
    assert env.step(act(0, 0, 0)).metrics["unstable"].tolist() == [0, 0, 0]


def test_an_exception_of_a_task_names_its_envs_and_the_step():
    env = make_env(EnvConfig(env="Raising-v0", num_envs=2), seed=0, first_index=4)
    env.reset()
    env.step(act(0, 0))
    env.step(act(0, 0))
    with pytest.raises(ValueError, match="boom") as error:
        env.step(act(0, 0))
    assert error.value.__notes__ == ["one of env indices 4 to 5, step 3"]


@pytest.mark.parametrize("env_id", ["Cart-v0", "CartWithForces-v0"])
def test_mujocos_log_goes_to_the_given_folder(env_id, tmp_path, monkeypatch, capfd):
    (tmp_path / "run").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    env = cart(2, env_id, log_dir=tmp_path / "run", threads=2)
    env.reset()
    env.step(act(0, 1))

    assert "unstable" in (tmp_path / "run" / LOG_NAME).read_text()
    assert not os.listdir(tmp_path / "here")
    assert "WARNING" not in "".join(capfd.readouterr())


def test_a_task_may_have_bounds_substeps_a_memory_and_a_critic_group_of_its_own():
    env = cart(2, "Targets-v0", max_episode_steps=3, stagger=False)
    spec = env.spec
    assert (spec.obs_dim, spec.critic_dim, spec.action_low, spec.action_high) == (3, 4, (np.float32(0.1),), (0.5,))
    first = env.reset()
    assert (first["critic"][:, 3] == first["obs"][:, 0]).all()

    for k in range(1, 4):
        step = env.step(act(-1, 1))
        assert step.next_obs["critic"][:, 3].tolist() == [np.float32(0.1), 0.5]
        np.testing.assert_array_equal(step.next_obs["critic"][:, :3], step.next_obs["obs"])
        assert step.next_obs["obs"][:, 2] == pytest.approx(0.002 * k)
    assert step.truncated.all()
    assert (step.obs["critic"][:, 3] == step.obs["obs"][:, 0]).all(), "of the new episodes"
    assert (step.obs["critic"][:, 3] != step.next_obs["critic"][:, 3]).all()


def test_first_episodes_are_staggered_by_truncation_and_later_ones_have_the_whole_limit():
    env = cart(4, max_episode_steps=10)
    env.reset()
    ends = [[] for _ in range(4)]
    for k in range(1, 31):
        step = env.step(act(0, 0, 0, 0))
        assert not step.terminated.any()
        for i in np.flatnonzero(step.truncated):
            ends[i].append(k)

    assert ends == [[3, 13, 23], [5, 15, 25], [8, 18, 28], [10, 20, 30]]


def test_an_evaluation_is_never_staggered_nor_a_run_that_says_no():
    cfg = EnvConfig(env="Cart-v0", num_envs=2, env_kwargs={"max_episode_steps": 4})
    told = EnvConfig(env="Cart-v0", num_envs=2, env_kwargs={"max_episode_steps": 4, "stagger": False})
    for env in (make_env(cfg, seed=0, role="eval"), make_env(told, seed=0)):
        env.reset()
        ends = [env.step(act(0, 0)).truncated.tolist() for _ in range(4)]
        assert ends == [[False] * 2] * 3 + [[True] * 2]


def test_without_a_limit_nothing_is_truncated():
    env = cart(2, max_episode_steps=-1)

    assert env.spec.max_episode_steps is None
    env.reset()
    assert not any(env.step(act(0, 0)).truncated.any() for _ in range(20))


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"frameskip": 2}, "no option 'frameskip'; did you mean 'frame_skip'?"),
        ({"frame_skip": "two"}, "frame_skip='two' must be of type int"),
        ({"contact": 1}, "contact=1 must be of type bool"),
        ({"max_episode_steps": 0}, "max_episode_steps=0 must be a positive whole number"),
        ({"stagger": 3}, "stagger=3 must be true or false"),
    ],
)
def test_an_option_that_a_task_does_not_have_is_refused(kwargs, words):
    with pytest.raises(EnvError, match="Cart-v0") as error:
        probe(EnvConfig(env="Cart-v0", env_kwargs=kwargs))
    assert words in str(error.value)


def test_resets_go_on_with_the_generators_and_seeds_count_once():
    cfg = EnvConfig(num_envs=2, backend="mujoco")
    env, again = make_env(cfg, seed=0), make_env(cfg, seed=0)
    first, second = env.reset()["obs"], env.reset()["obs"]

    np.testing.assert_array_equal(again.reset()["obs"], first)
    assert (first != second).all(axis=1).any()
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(make_env(cfg, seed=1).reset()["obs"], first)
    assert not np.array_equal(make_env(cfg, seed=0, role="eval").reset()["obs"], first)


def test_a_steps_arrays_are_the_callers():
    env = make_env(EnvConfig(num_envs=2, backend="mujoco", env_kwargs={"max_episode_steps": 3}), seed=0)
    kept = [(env.reset()["obs"],)]
    copies = [kept[0][0].copy()]
    for _ in range(7):
        step = env.step(np.full((2, 6), 0.5, np.float32))
        arrays = (step.obs["obs"], step.next_obs["obs"], step.reward, step.terminated, *step.metrics.values())
        kept.append(arrays)
        copies.append([array.copy() for array in arrays])
        assert not np.shares_memory(step.obs["obs"], step.next_obs["obs"])
    env.reset()

    for arrays, values in zip(kept[1:], copies[1:], strict=True):
        for array, value in zip(arrays, values, strict=True):
            np.testing.assert_array_equal(array, value)
