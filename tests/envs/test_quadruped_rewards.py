"""Reward terms of QuadrupedVelocity against numbers worked out by hand."""

import dataclasses
import math

import numpy as np
import pytest
from quadruped_env import quadruped, some_actions, still

from unilab.envs.tasks.quadruped.rewards import Motion, Weights, terms, weighted

N = 1
STILL = {
    "command": np.zeros((N, 3)),
    "velocity": np.zeros((N, 3)),
    "rates": np.zeros((N, 3)),
    "gravity": np.array([[0.0, 0.0, -1.0]]),
    "torque": np.zeros((N, 12)),
    "joint_velocity": np.zeros((N, 12)),
    "deviation": np.zeros((N, 12)),
    "beyond": np.zeros((N, 12)),
    "action_change": np.zeros((N, 12)),
    "landed_after": np.full((N, 4), np.nan),
    "in_the_air": np.zeros((N, 4)),
    "slipping": np.zeros((N, 4)),
    "fallen": np.zeros(N),
}


def first(values, width):
    out = np.zeros((N, width))
    out[0, : len(values)] = values
    return out


def test_a_robot_that_stands_as_commanded_gets_the_tracking_terms_and_nothing_else():
    values = terms(Motion(**STILL))

    assert {name: float(value[0]) for name, value in values.items() if value[0] != 0} == {
        "velocity": 1,
        "yaw": 1,
        "alive": 1,
    }


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"command": [[1, 0.5, 0]], "velocity": [[0.7, 0.1, 9]]}, "velocity", math.exp(-1)),  # 0.09 + 0.16 = 0.25
        ({"command": [[0, 0, 0.5]], "rates": [[9, 9, -0.5]]}, "yaw", math.exp(-4)),
        ({"fallen": [1.0]}, "alive", 0),
        ({"fallen": [1.0]}, "fall", 1),
        ({"velocity": [[5, 5, -0.3]]}, "vertical", 0.09),
        ({"rates": [[3, 4, 7]]}, "roll_pitch", 25),
        ({"gravity": [[0.6, 0, -0.8]]}, "tilt", 0.36),
        ({"torque": first([2, -3], 12)}, "torque", 13),
        ({"torque": first([2, -3], 12), "joint_velocity": first([5, 1], 12)}, "energy", 13),
        ({"action_change": first([0.5, -2], 12)}, "action_rate", 4.25),
        ({"slipping": [[0.3, 0, 0.4, 0]]}, "slip", 0.25),
        ({"beyond": first([0.1, 0.2], 12)}, "limits", 0.3),
        ({"deviation": first([0.3, -0.4], 12)}, "pose", 0.25),
        ({"deviation": first([0.3, -0.4], 12)}, "stand", 0.7),
        ({"deviation": first([0.3, -0.4], 12), "command": [[0, 0.1, 0]]}, "stand", 0),
        # 0.25 - 0.15 and 0.4 - 0.15: no more than 0.4 s counts; a foot that did not land is NaN.
        ({"landed_after": [[0.25, np.nan, 3, np.nan]], "command": [[0, 0, 0.1]]}, "air_time", 0.35),
        ({"landed_after": [[0.05, np.nan, np.nan, np.nan]], "command": [[1, 0, 0]]}, "air_time", -0.1),
        ({"landed_after": [[0.25, np.nan, 3, np.nan]]}, "air_time", 0),
        ({"in_the_air": [[0.2, 0.5, 0, 7]]}, "dangling", 1.2),
    ],
)
def test_a_term_is_what_its_description_says(changes, name, value):
    motion = Motion(**STILL | {key: np.array(part, float) for key, part in changes.items()})

    assert terms(motion)[name] == pytest.approx([value])


def test_every_weight_has_a_term_and_weighs_it():
    values = terms(Motion(**STILL))
    weights = Weights(**{field.name: float(i) for i, field in enumerate(dataclasses.fields(Weights))})

    assert list(values) == [field.name for field in dataclasses.fields(Weights)]
    for i, (name, value) in enumerate(weighted(values, weights).items()):
        assert value == pytest.approx(i * values[name])


def test_the_reward_is_the_sum_of_the_terms_that_are_logged():
    env = quadruped(3, rewards={"velocity": 2.0, "slip": 0.0})
    env.reset()
    for action in some_actions(3, 20):
        step = env.step(action)
        logged = [values for name, values in step.metrics.items() if name.startswith("reward_")]
        assert len(logged) == 16
        np.testing.assert_allclose(np.sum(logged, axis=0), step.reward, rtol=1e-5, atol=1e-6)
        assert (step.metrics["reward_slip"] == 0).all()


def test_time_in_the_air_is_counted_per_foot_and_paid_at_touch_down():
    env = quadruped(1, rewards={"air_time": 1.0}, commands={"standing": 0.0})
    env.reset()
    for _ in range(30):
        env.step(still())
    air = env.sim.memory["air_s"][0]
    assert (air == 0).all()
    env.sim.qpos[0, 2] += 0.25  # dropped from there
    paid, longest = 0.0, 0.0
    for _ in range(30):
        touched = air == 0
        step = env.step(still())
        got = float(step.metrics["reward_air_time"][0])
        landed = (air == 0) & ~touched
        assert landed.any() or got == 0
        paid += got
        longest = max(longest, air.max())

    assert longest == pytest.approx((2 * 0.25 / 9.81) ** 0.5, abs=0.03), "a fall from 0.25 m takes 0.226 s"
    assert paid >= 4 * (longest - 0.04 - 0.15)


def test_slip_is_the_speed_of_feet_on_the_ground_alone():
    env = quadruped(1)
    env.reset()
    for _ in range(30):
        env.step(still())
    standing = float(env.step(still()).metrics["reward_slip"][0])
    env.sim.qvel[0, 0] = 2.0
    pushed = float(env.step(still()).metrics["reward_slip"][0])
    env.sim.qpos[0, 2] += 0.3
    env.sim.qvel[0, 0] = 2.0
    flying = float(env.step(still()).metrics["reward_slip"][0])

    assert abs(standing) < 1e-3
    assert pushed < -0.02
    assert flying == 0


def test_a_fall_ends_the_episode_and_a_tilt_below_the_limit_does_not():
    env = quadruped(4, fall_tilt=0.5, fall_height=0.4)
    env.reset()
    env.sim.qpos[:, 2] = [0.5, 0.5, 0.1, 0.5]
    for i, tilt in enumerate((0.4, 0.6, 0.0, 0.0)):
        env.sim.qpos[i, 3:7] = math.cos(tilt / 2), math.sin(tilt / 2), 0, 0
    step = env.step(np.zeros((4, 12), np.float32))

    assert step.terminated.tolist() == [False, True, True, False]
    assert step.metrics["reward_fall"].tolist() == [0, -5, -5, 0]
