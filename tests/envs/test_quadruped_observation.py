"""What the robot and the critics of QuadrupedVelocity see."""

import mujoco
import numpy as np
import pytest
from quadruped_env import NO_DELAY, QUIET, quadruped, some_actions, still

from unilab.envs.tasks.quadruped.ground import Ground, make_ground

ANGLES, VELOCITIES, ACTION, COMMAND = slice(6, 18), slice(18, 30), slice(30, 42), slice(42, 45)
PRIVILEGED = 45 + 2 * 42


def oracle(env, i):
    """MuJoCo's own data at the state of env i, written by its public functions alone."""
    data = mujoco.MjData(env.sim.model)
    data.qpos[:], data.qvel[:] = env.sim.qpos[i], env.sim.qvel[i]
    mujoco.mj_forward(env.sim.model, data)
    return data


def test_a_frame_is_gyro_gravity_joints_and_the_last_action_then_the_command():
    env = quadruped(2, noise=QUIET)
    env.reset()
    for action in some_actions(2, 5):
        step = env.step(action)

    obs = step.next_obs["obs"][1]
    data = oracle(env, 1)
    down = data.body("trunk").xmat.reshape(3, 3).T @ [0, 0, -1]
    nominal = np.tile([0, 0.8, -1.5], 4)
    assert obs.shape == (129,)
    assert obs[3:6] == pytest.approx(down, abs=0.02), "of 4 ms before"
    np.testing.assert_allclose(obs[0:3], env.sim.data["sensordata"][1, :3], rtol=1e-6)
    assert obs[0:3] == pytest.approx(data.qvel[3:6], abs=1.5)
    np.testing.assert_allclose(obs[ANGLES], data.qpos[7:] - nominal, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(obs[VELOCITIES], data.qvel[6:], rtol=1e-6)
    np.testing.assert_array_equal(obs[ACTION], action[1])
    np.testing.assert_array_equal(obs[COMMAND], env.sim.memory["command"][1].astype(np.float32))


def test_the_frames_before_follow_newest_first_and_repeat_the_first_where_an_episode_begins():
    env = quadruped(2, max_episode_steps=4)
    obs = env.reset()["obs"]
    frames = [obs[:, :42]]
    np.testing.assert_array_equal(obs[:, 45:], np.tile(obs[:, :42], 2))

    for k, action in enumerate(some_actions(2, 4)):
        step = env.step(action)
        obs = step.next_obs["obs"]
        older = frames[-2] if k else frames[-1]
        np.testing.assert_array_equal(obs[:, 45:87], frames[-1])
        np.testing.assert_array_equal(obs[:, 87:129], older)
        frames.append(obs[:, :42])
    assert step.truncated.all()
    first = step.obs["obs"]
    np.testing.assert_array_equal(first[:, 45:], np.tile(first[:, :42], 2))
    assert (first[:, ACTION] == 0).all()


def test_the_history_is_as_long_as_asked_for():
    assert quadruped(history=0).spec.obs_dim == 45
    assert quadruped(history=5).spec.obs_dim == 45 + 5 * 42


def test_noise_is_on_what_is_measured_uniform_and_as_wide_as_asked_for():
    noise = {"gyro": 0.3, "gravity": 0.1, "joint_angle": 0.02, "joint_velocity": 1.0}
    env = quadruped(50, noise=noise)
    env.reset()
    error = []
    for action in some_actions(50, 40):
        groups = env.step(action).next_obs
        error.append(groups["obs"] - groups["critic"][:, :129])
    error = np.concatenate(error)

    for columns, width in ((slice(0, 3), 0.3), (slice(3, 6), 0.1), (ANGLES, 0.02), (VELOCITIES, 1.0)):
        part = error[:, columns]
        assert 0.99 * width < np.abs(part).max() <= 1.001 * width
        assert part.mean() == pytest.approx(0, abs=0.03 * width)
        assert part.std() == pytest.approx(width / 3**0.5, rel=0.03)
    assert (error[:, 30:45] == 0).all(), "neither actions nor commands"
    lag = np.corrcoef(error[:-50, 0], error[50:, 0])[0, 1]
    assert abs(lag) < 0.1, "drawn anew in each step"
    assert abs(np.corrcoef(error[:, 0], error[:, 1])[0, 1]) < 0.1
    assert abs(np.corrcoef(error[0::50, 0], error[1::50, 0])[0, 1]) < 0.5, "and in each env"


def test_without_noise_both_groups_begin_alike():
    env = quadruped(3, noise=QUIET)
    env.reset()
    for action in some_actions(3, 5):
        groups = env.step(action).next_obs
        np.testing.assert_array_equal(groups["obs"], groups["critic"][:, :129])


def test_critics_also_see_velocity_contacts_heights_and_parameters():
    env = quadruped(4, variation={"friction": [0.5, 0.9], "delay_s": [0.0, 0.02]})
    env.reset()
    for action in some_actions(4, 30):
        critic = env.step(action).next_obs["critic"][:, PRIVILEGED:]

    assert critic.shape == (4, 24)
    for i in range(4):
        data = oracle(env, i)
        velocity = data.body("trunk").xmat.reshape(3, 3).T @ data.qvel[:3]
        np.testing.assert_allclose(critic[i, 0:3], velocity, rtol=1e-5, atol=1e-6)
        heights = [data.geom(f"{leg}_foot").xpos[2] for leg in ("FL", "FR", "RL", "RR")]
        assert critic[i, 7:11] == pytest.approx(heights, abs=0.03), "of 4 ms before"
        assert critic[i, 11:20] == pytest.approx([data.qpos[2]] * 9), "flat ground"
    np.testing.assert_allclose(critic[:, 20:24], env.sim.memory["parameters"], rtol=1e-6)
    assert ((critic[:, 20] >= 0.5) & (critic[:, 20] < 0.9)).all()


def test_contacts_are_those_of_feet_with_the_ground():
    env = quadruped(1, variation=NO_DELAY)
    env.reset()
    for _ in range(50):
        step = env.step(still())
    assert step.next_obs["critic"][0, PRIVILEGED + 3 : PRIVILEGED + 7].tolist() == [1, 1, 1, 1]

    env.sim.qpos[0, 2] += 0.2
    assert env.step(still()).next_obs["critic"][0, PRIVILEGED + 3 : PRIVILEGED + 7].tolist() == [0, 0, 0, 0]


def test_heights_are_over_the_ground_below_on_hills():
    env = quadruped(5, ground={"kind": "hills", "amplitude": 0.1})
    env.reset()
    ground = make_ground(Ground(kind="hills", amplitude=0.1))
    model = env.sim.model
    for i in range(5):
        data = oracle(env, i)
        x, y = env.sim.qpos[i, :2]
        geom = np.zeros(1, np.int32)
        down = mujoco.mj_ray(model, data, np.array([x, y, 5.0]), np.array([0, 0, -1.0]), None, 1, 1, geom)
        assert down > 0
        below = mujoco.mj_rayHfield(
            model, data, model.geom("unilab_ground").id, np.array([x, y, 5.0]), np.array([0, 0, -1.0])
        )
        assert 5.0 - below == pytest.approx(float(ground.height(np.array(x), np.array(y))), abs=0.004)
        trunk = env.state()["obs.critic"][i, PRIVILEGED + 11 : PRIVILEGED + 20]
        assert trunk[4] == pytest.approx(env.sim.qpos[i, 2] - (5.0 - below), abs=0.004)
        assert np.ptp(trunk) > 0.001
    assert np.ptp(ground.grid) == pytest.approx(0.2, rel=1e-6)
