import mujoco
import numpy as np
import pytest

from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks.camera import Camera
from unilab.view.native import View

XML = """<mujoco><worldbody><geom type="plane" size="40 40 1"/>
<body pos="1 2 3"><joint type="slide" axis="1 0 0"/><geom type="sphere" size="0.5"/></body></worldbody></mujoco>"""


@pytest.fixture
def model():
    return mujoco.MjModel.from_xml_string(XML)


def look(model, camera, moved=0.0):
    data = mujoco.MjData(model)
    data.qpos[0] = moved
    mujoco.mj_forward(model, data)
    return View(model, camera).at(data)


def test_a_camera_goes_with_the_robot_and_keeps_its_height(model):
    assert np.allclose(look(model, Camera(), moved=7.0).lookat, [8, 2, 3])
    assert np.allclose(look(model, Camera(lookat=(0.5, 0.0, 1.0)), moved=7.0).lookat, [8.5, 2, 1])


def test_a_camera_that_does_not_follow_stays(model):
    assert np.allclose(look(model, Camera(follow=False), moved=7.0).lookat, [1, 2, 3])
    assert np.allclose(look(model, Camera(follow=False, lookat=(0.0, 0.0, 0.2)), moved=7.0).lookat, [0, 0, 0.2])


def test_the_distance_fits_the_robot_however_large_its_floor_is(model):
    assert look(model, Camera()).distance == pytest.approx(3 * 0.5)
    assert look(model, Camera(distance=9.0)).distance == 9.0


def test_a_model_without_joints_has_a_view_too():
    model = mujoco.MjModel.from_xml_string('<mujoco><worldbody><geom size="2"/></worldbody></mujoco>')

    assert look_at_default(model).distance == pytest.approx(3 * 2)


def look_at_default(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return View(model, Camera()).at(data)


def test_what_is_drawn_is_the_state_of_each_simulation():
    env = make_env(EnvConfig(env="Ant-v5", num_envs=3), seed=0)
    env.reset()
    for _ in range(5):
        env.step(np.random.default_rng(0).uniform(-1, 1, (3, 8)).astype(np.float32))
    data = mujoco.MjData(env.sim.model)

    for i in range(3):
        env.sim.copy_to(data, i)
        assert np.array_equal(data.qpos, env.sim.qpos[i])
        assert np.array_equal(data.qvel, env.sim.qvel[i])
        assert data.time == env.sim.time[i]
    assert len({tuple(row) for row in env.sim.qpos}) == 3
