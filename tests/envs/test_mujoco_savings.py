"""What native envs leave out of the engine's work changes no result."""

import ctypes

import mujoco
import numpy as np
import pytest

from unilab.envs.mujoco_savings import stop_clock, without_islands
from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks import TASKS, task_class

NATIVE = [env_id for env_id, entry in TASKS.items() if isinstance(entry, str)]
ONE_TREE = [env_id for env_id in NATIVE if env_id not in ("Pusher-v5", "Reacher-v5")]
STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
NO_ISLANDS = int(mujoco.mjtDisableBit.mjDSBL_ISLAND)


@pytest.fixture
def clock():
    """MuJoCo's own, now and after the test."""
    mujoco.set_mjcb_time(None)
    yield
    mujoco.set_mjcb_time(None)


def state_of(model, data):
    state = np.empty(mujoco.mj_stateSize(model, STATE))
    mujoco.mj_getState(model, data, state, STATE)
    return state


def timed(model):
    """Milliseconds and calls that a step's profile has."""
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    timer = data.timer[mujoco.mjtTimer.mjTIMER_STEP]
    return timer.duration, timer.number


@pytest.mark.parametrize("env_id", ONE_TREE)
def test_without_islands_a_single_tree_moves_by_the_same_bits(env_id):
    task = task_class(env_id)()
    plain = task.load()
    lean = without_islands(plain)
    assert (plain.opt.disableflags, lean.opt.disableflags) == (0, NO_ISLANDS)
    ours, theirs = mujoco.MjData(lean), mujoco.MjData(plain)
    low, high = plain.actuator_ctrlrange.T
    rng, islands, constraints = np.random.default_rng(0), 0, 0
    for _ in range(400):
        ours.ctrl[:] = theirs.ctrl[:] = rng.uniform(low, high)
        for model, data in ((lean, ours), (plain, theirs)):
            mujoco.mj_step(model, data, task.frame_skip)
        np.testing.assert_array_equal(state_of(lean, ours), state_of(plain, theirs))
        np.testing.assert_array_equal(ours.qfrc_constraint, theirs.qfrc_constraint)
        assert ours.nisland == 0
        islands += theirs.nisland
        constraints += theirs.nefc

    assert (islands > 0) == (constraints > 0)  # the other did look for them


@pytest.mark.parametrize("env_id", ["Pusher-v5", "Reacher-v5"])
def test_a_model_of_several_trees_keeps_its_islands(env_id):
    model = task_class(env_id)().load()

    assert model.ntree > 1
    assert without_islands(model) is model
    assert model.opt.disableflags == 0


def test_a_native_env_stops_the_clock_and_mujoco_can_start_it_again(clock):
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    assert timed(model)[0] > 0

    make_env(EnvConfig(env="HalfCheetah-v5", backend="mujoco", num_envs=1), seed=0, threads=1)
    assert timed(model) == (0, 1)

    mujoco.set_mjcb_time(None)
    assert timed(model)[0] > 0


def test_a_clock_that_someone_else_has_installed_stays(clock):
    calls = []
    mine = ctypes.CFUNCTYPE(ctypes.c_double)(lambda: float(calls.append(0) or len(calls)))
    mujoco.set_mjcb_time(mine)
    stop_clock()

    assert timed(mujoco.MjModel.from_xml_string("<mujoco/>"))[0] > 0
    assert calls
