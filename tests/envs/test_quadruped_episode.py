"""Delays, commands, pushes and robots that differ, in QuadrupedVelocity."""

import numpy as np
import pytest
from quadruped_env import ENV_ID, NO_DELAY, quadruped, some_actions, still

from unilab.envs.registry import EnvConfig, make_env
from unilab.envs.tasks.quadruped.commands import Commands, CommandSource
from unilab.envs.tasks.quadruped.draws import COMMAND, NOISE, uniform
from unilab.envs.tasks.quadruped.task import QuadrupedVelocity

STEPS_A_SECOND = 50


def test_targets_reach_the_servos_after_each_envs_delay():
    env = quadruped(6)
    env.reset()
    env.sim.memory["delay"][:] = range(6)
    seen, step = [], env.sim.step

    def watched(substeps):
        seen.extend([env.sim.ctrl.copy()] * substeps)
        step(substeps)

    env.sim.step = watched
    first, second = some_actions(6, 2)
    env.step(first)
    env.step(second)

    nominal, reach = np.tile([0, 0.8, -1.5], 4), np.tile([0.3, 0.5, 0.5], 4)
    targets = [np.tile(nominal, (6, 1)), nominal + first * reach, nominal + second * reach]
    assert len(seen) == 10
    for i in range(6):
        by_hand = [targets[0][i]] * i + [targets[1][i]] * 5 + [targets[2][i]] * (5 - i)
        np.testing.assert_allclose([ctrl[i] for ctrl in seen], by_hand, rtol=1e-12)


def test_delays_are_whole_substeps_between_0_and_20_ms_and_a_new_one_comes_with_each_episode():
    env = quadruped(300, max_episode_steps=1)
    env.reset()
    before = env.sim.memory["delay"].copy()
    env.step(still(300))

    assert set(before) == set(range(6))
    assert (env.sim.memory["delay"] != before).mean() > 0.6
    np.testing.assert_allclose(env.sim.memory["parameters"][:, 3], 0.004 * env.sim.memory["delay"])
    assert set(quadruped_after_reset(50, variation={"delay_s": [0.008, 0.008]}).memory["delay"]) == {2}


def quadruped_after_reset(n, **kwargs):
    env = quadruped(n, **kwargs)
    env.reset()
    return env.sim


def test_targets_lie_within_reach_of_the_nominal_pose_and_within_the_joints_range():
    env = quadruped(2, variation=NO_DELAY)
    env.reset()
    env.step(np.float32([[1e6] * 12, [-1e6] * 12]))

    nominal, reach = np.tile([0, 0.8, -1.5], 4), np.tile([0.3, 0.5, 0.5], 4)
    np.testing.assert_allclose(env.sim.ctrl, [nominal + reach, nominal - reach])


def test_torques_stay_within_the_servos_limits():
    env = quadruped(20)
    env.reset()
    largest = np.zeros(12)
    for action in np.sign(some_actions(20, 50)):
        env.step(action)
        largest = np.maximum(largest, np.abs(env.sim.data["actuator_force"]).max(axis=0))
    assert (largest <= np.tile([24, 24, 36], 4) + 1e-9).all()
    assert largest.max() > 23


def test_commands_fill_the_range_and_a_share_of_them_is_to_stand():
    sim = quadruped_after_reset(4000, commands={"vx": 1.0, "vy": 0.5, "yaw": 0.8, "standing": 0.2})
    command = sim.memory["command"]
    standing = (command == 0).all(axis=1)
    moving = command[~standing]

    assert standing.mean() == pytest.approx(0.2, abs=0.03)
    for column, top in enumerate((1.0, 0.5, 0.8)):
        assert 0.99 * top < np.abs(moving[:, column]).max() <= top
        assert moving[:, column].mean() == pytest.approx(0, abs=0.05 * top)
        assert moving[:, column].std() == pytest.approx(top / 3**0.5, rel=0.05)
    assert np.abs(np.corrcoef(moving.T) - np.eye(3)).max() < 0.06


def test_a_command_lasts_between_5_and_10_seconds():
    sim = quadruped_after_reset(60, commands={"standing": 0.0})
    source = CommandSource(Commands(standing=0.0), dt=0.02)
    last, age, lasted = sim.memory["command"].copy(), np.zeros(60, int), []
    for _ in range(2000):
        sim.episode_steps += 1
        source.update(sim)
        age += 1
        changed = (sim.memory["command"] != last).any(axis=1)
        lasted.extend(age[changed])
        age[changed] = 0
        last = sim.memory["command"].copy()

    lasted = np.array(lasted) / STEPS_A_SECOND
    assert len(lasted) > 200
    assert 5 <= lasted.min() < 5.1
    assert 9.9 < lasted.max() <= 10
    assert lasted.mean() == pytest.approx(7.5, abs=0.3)


def test_a_reward_belongs_to_the_command_acted_on():
    env = quadruped(1, commands={"every_s": [0.02, 0.02], "standing": 0.0})
    obs = env.reset()
    for action in some_actions(1, 5):
        command = obs["obs"][0, 42:45].astype(float)
        step = env.step(action)
        obs = step.obs
        velocity = step.next_obs["critic"][0, -24:-22]
        error = np.square(command[:2] - velocity).sum()
        assert step.metrics["reward_velocity"][0] == pytest.approx(2.0 * np.exp(-error / 0.25), rel=1e-4)
        assert (step.next_obs["obs"][0, 42:45] != command.astype(np.float32)).all(), "the next step's command"


def test_pushes_change_the_trunks_velocity_now_and_then():
    n = 40
    env = quadruped(n, variation=NO_DELAY, pushes={"speed": 0.8, "every_s": [0.5, 1.0]})
    env.reset()
    planned, age, lasted, jumps = env.sim.memory["next_push"].copy(), np.zeros(n, int), [], []
    for _ in range(150):
        before = env.sim.qvel[:, :2].copy()
        step = env.step(still(n))
        age += 1
        fell = step.terminated
        due = (env.sim.memory["next_push"] != planned) & ~fell
        change = env.sim.qvel[:, :2] - before
        jumps.append(change[due])
        lasted.extend(age[due])
        age[due | fell] = 0
        planned = env.sim.memory["next_push"].copy()

    lasted, jumps = np.array(lasted) / STEPS_A_SECOND, np.concatenate(jumps)
    assert len(lasted) > 100
    assert 0.5 <= lasted.min() < 0.6
    assert 0.9 < lasted.max() <= 1.0
    # Uniform within 0.8 m/s along each axis, but for what the ground does in the same step.
    assert np.abs(jumps).std(axis=0) == pytest.approx([0.8 / 12**0.5] * 2, rel=0.35)
    assert (np.abs(jumps).max(axis=0) > 0.7).all()


def test_without_pushes_nothing_moves_a_robot_that_stands():
    env = quadruped(5)
    env.reset()
    for k in range(400):
        env.step(still(5))
        assert k < 50 or np.abs(env.sim.qvel[:, :2]).max() < 0.05


def test_robots_differ_only_in_what_is_asked_for():
    env = quadruped(30, variation={"friction": [0.4, 1.2]})
    env.reset()

    assert set(env.sim._expanded) == {"geom_friction"}
    parameters = env.sim.memory["parameters"]
    assert (parameters[:, 1:3] == 1).all()
    assert np.ptp(parameters[:, 0]) > 0.5
    feet = [env.sim.model.geom(f"{leg}_foot").id for leg in ("FL", "FR", "RL", "RR")]
    friction = env.sim._expanded["geom_friction"]
    np.testing.assert_allclose(friction[:, feet, 0], 0.8 * parameters[:, [0, 0, 0, 0]])
    assert quadruped_after_reset(2)._expanded == {}


def test_a_heavier_trunk_weighs_more_and_soft_servos_give_way():
    heavy = quadruped(2, noise={}, variation={"mass": [2.0, 2.0]} | NO_DELAY)
    soft = quadruped(2, variation={"servo_gain": [0.5, 0.5]} | NO_DELAY)
    plain = quadruped(2, variation=NO_DELAY)
    heights, torques = {}, {}
    for name, env in (("heavy", heavy), ("soft", soft), ("plain", plain)):
        env.reset()
        for _ in range(100):
            env.step(still(2))
        heights[name] = env.sim.qpos[:, 2].mean()
        torques[name] = env.sim.data["actuator_force"][:, 2::3].mean()  # of the knees

    assert heights["heavy"] < heights["plain"] - 0.005
    assert heights["soft"] < heights["plain"] - 0.005
    assert torques["heavy"] > 1.3 * torques["plain"]
    assert torques["soft"] == pytest.approx(torques["plain"], rel=0.15)
    trunk = heavy.sim.model.body("trunk").id
    assert heavy.sim._expanded["body_mass"][:, trunk].tolist() == pytest.approx([12.8, 12.8])
    # What mj_setConst derives follows: the whole robot's mass.
    subtree = heavy.sim._batch().expand("body_subtreemass")
    assert subtree[:, trunk] == pytest.approx(12.4 + 6.4)


def test_slippery_feet_slide_further():
    slid = {}
    for factor in (0.1, 1.0):
        env = quadruped(1, variation={"friction": [factor, factor]} | NO_DELAY)
        env.reset()
        for _ in range(30):
            env.step(still())
        start = env.sim.qpos[0, :2].copy()
        env.sim.qvel[0, :2] = 1.0
        for _ in range(20):
            env.step(still())
        slid[factor] = np.linalg.norm(env.sim.qpos[0, :2] - start)
    assert slid[0.1] > 1.5 * slid[1.0]


def test_a_curriculum_widens_the_range_with_success_and_narrows_it_with_failure():
    env = quadruped(2, max_episode_steps=1, commands={"curriculum": True, "start_level": 0.3, "standing": 0.0})
    env.reset()
    memory = env.sim.memory
    assert memory["level"].tolist() == [0.3, 0.3]
    assert np.abs(memory["command"]).max() <= 0.3

    for wanted in ([0.4, 0.3], [0.5, 0.3], [0.6, 0.3], [0.7, 0.3]):
        memory["tracked"][:] = [[90, 100], [20, 100]]
        env.step(still(2))
        assert memory["level"] == pytest.approx(wanted)
        assert (np.abs(memory["command"]) <= memory["level"][:, None] * [1, 0.5, 1]).all()
    memory["tracked"][:] = [[20, 100], [50, 100]]
    metrics = env.step(still(2)).metrics
    assert metrics["command_level"] == pytest.approx([0.7, 0.3]), "of the episode that ended"
    assert memory["level"] == pytest.approx([0.6, 0.3])
    for _ in range(9):
        memory["tracked"][:] = [[90, 100], [50, 100]]
        env.step(still(2))
    assert memory["level"] == pytest.approx([1.0, 0.3])


def test_episodes_last_20_seconds_and_begin_on_the_ground_heading_anywhere():
    env = quadruped(200, ground={"kind": "hills"})
    assert env.spec.max_episode_steps == 1000
    assert QuadrupedVelocity().dt(env.sim) == pytest.approx(0.02)
    env.reset()
    yaw = 2 * np.arctan2(env.sim.qpos[:, 6], env.sim.qpos[:, 3])
    assert np.ptp(np.cos(yaw)) > 1.9
    assert np.ptp(env.sim.qpos[:, :2], axis=0) == pytest.approx([10, 10], abs=0.6)
    for _ in range(40):
        step = env.step(still(200))
        assert not step.terminated.any()
    assert (step.next_obs["critic"][:, -21:-17].sum(axis=1) >= 2).all(), "feet are on the ground"


def test_draws_are_uniform_and_depend_on_key_tick_stream_and_column():
    keys = np.random.default_rng(0).integers(0, 1 << 63, 500)
    ticks = np.arange(500)
    draw = uniform(keys, ticks, NOISE, 40)

    assert draw.min() >= 0
    assert draw.max() < 1
    counts = np.histogram(draw, bins=20, range=(0, 1))[0]
    assert np.square(counts - 1000).sum() / 1000 < 43.8, "chi squared with 19 degrees of freedom, 0.1 %"
    np.testing.assert_array_equal(uniform(keys[7:9], ticks[7:9], NOISE, 40), draw[7:9])
    others = [
        uniform(keys + 1, ticks, NOISE, 40),
        uniform(keys, ticks + 1, NOISE, 40),
        uniform(keys, ticks, COMMAND, 40),
        np.roll(draw, 1, axis=1),
        np.roll(draw, 1, axis=0),
    ]
    for other in others:
        assert (other != draw).all()
        assert abs(np.corrcoef(other.ravel(), draw.ravel())[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"rewards": {"velocty": 1}}, "rewards has no option 'velocty'; did you mean 'velocity'?"),
        ({"rewards": 3}, "rewards=3 must be a mapping of names to values"),
        ({"rewards": {"slip": "much"}}, "rewards.slip='much' must be of type float"),
        ({"commands": {"every_s": 5}}, "commands.every_s=5 must be of type tuple"),
        ({"commands": {"standing": 2}}, "commands.standing=2.0 must be within [0, 1]"),
        ({"noise": {"gyro": -1}}, "noise.gyro=-1.0 must be 0 or more"),
        ({"ground": {"kind": "stairs"}}, "ground.kind='stairs' must be one of flat, hills"),
        ({"variation": {"mass": [0, 1]}}, "variation.mass=(0.0, 1.0) must be a range of positive numbers"),
        ({"variation": {"delay_s": [0, 0.1]}}, "variation.delay_s=(0.0, 0.1) must be a range within [0, 0.02]"),
        ({"pushes": {"speed": -1}}, "pushes.speed=-1.0 must be 0 or more"),
        ({"history": -1}, "history=-1 must be within [0, 20]"),
        ({"robots": "mine"}, "did you mean 'robot'?"),
        ({"robot": "quadrupet"}, "did you mean 'quadruped'?"),
    ],
)
def test_an_option_that_cannot_work_is_refused_in_one_sentence(kwargs, words):
    with pytest.raises(Exception) as error:  # noqa: PT011  # the type is checked below, with its message
        make_env(EnvConfig(env=ENV_ID, num_envs=1, env_kwargs=kwargs), seed=0)

    assert type(error.value).__name__ == "EnvError"
    assert words in str(error.value)
    assert "\n" not in str(error.value)
