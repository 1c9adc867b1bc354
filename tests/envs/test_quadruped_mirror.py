"""The mirror map of QuadrupedVelocity against the physics: mirrored state and action, mirrored successor."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from quadruped_env import EVERYTHING, QUIET, quadruped, some_actions

from unilab.envs.registry import EnvConfig, probe
from unilab.envs.tasks.quadruped import measure, robot
from unilab.envs.tasks.quadruped.task import QuadrupedVelocity
from unilab.mirror import Mirror, SignedPermutation

ROBOTS = Path(robot.__file__).parent / "robots"

SIDES = [1, 0, 3, 2]  # FL FR RL RR
JOINTS = np.array([3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8])
TURNS = np.tile([-1, 1, 1], 4)  # hips turn about x


def seen(map_, rows):
    return rows[:, list(map_.index)] * np.array(map_.sign)


def mirror_state(env):
    """Put each simulation into its own mirror image, by hand."""
    sim = env.sim
    sim.qpos[:, 1] *= -1
    sim.qpos[:, 4] *= -1  # w, x, y, z: turns about x and z change their sign
    sim.qpos[:, 6] *= -1
    sim.qpos[:, 7:] = sim.qpos[:, 7 + JOINTS] * TURNS
    sim.qvel[:, 1] *= -1
    sim.qvel[:, 3:6] *= [-1, 1, -1]
    sim.qvel[:, 6:] = sim.qvel[:, 6 + JOINTS] * TURNS
    sim.ctrl[:] = sim.ctrl[:, JOINTS] * TURNS
    warm = sim._engine.bind("qacc_warmstart")
    warm[:, 1] *= -1
    warm[:, 3:6] *= [-1, 1, -1]
    warm[:, 6:] = warm[:, 6 + JOINTS] * TURNS
    memory = sim.memory
    memory["action"][:] = memory["action"][:, JOINTS] * TURNS
    memory["air_s"][:] = memory["air_s"][:, SIDES]
    memory["command"][:] *= [1, -1, -1]
    for name in ("frame", "history"):
        frames = memory[name].reshape(-1, 42)
        frames[:, :6] *= [-1, 1, -1, 1, -1, 1]
        for start in (6, 18, 30):
            frames[:, start : start + 12] = frames[:, start + JOINTS] * TURNS


@pytest.mark.parametrize("settings", [{}, {"history": 0}, {"variation": EVERYTHING["variation"]}])
def test_the_mirrored_action_in_the_mirrored_state_leads_to_the_mirrored_successor(settings):
    # One after the other from the same seeds, so that all but the sides is the same: keys, commands, delays, robots.
    # A command that is drawn, and noise, are no images; neither comes here.
    options = {"noise": QUIET, "commands": {"every_s": [90, 90]}} | settings
    one, image = quadruped(8, seed=3, **options), quadruped(8, seed=3, **options)
    mirror = one.spec.mirror
    one.reset(), image.reset()
    actions = some_actions(8, 40) * 0.6
    ticks = 0
    for k, action in enumerate(actions):
        image.restore(one.state())
        mirror_state(image)
        step = one.step(action)
        reflected = image.step(seen(mirror.action, action).astype(np.float32))
        going = ~(step.terminated | reflected.terminated)
        ticks += going.sum()
        assert np.array_equal(step.terminated, reflected.terminated), k
        # The solver adds up in another order in the mirror.
        for name, map_ in (("obs", mirror.obs), ("critic", mirror.critic)):
            error = np.abs(seen(map_, step.next_obs[name]) - reflected.next_obs[name])[going]
            assert error.max() < 1e-5, (k, name, int(error.max(axis=0).argmax()))
        np.testing.assert_allclose(step.reward[going], reflected.reward[going], atol=1e-5)

    assert ticks > 200
    assert np.abs(step.next_obs["obs"][:, 6:30]).max() > 0.5  # they move


def test_heights_over_hills_are_those_over_mirrored_hills():
    one, image = quadruped(4, ground={"kind": "hills"}), quadruped(4, ground={"kind": "hills"})
    one.reset(), image.reset()
    for action in some_actions(4, 5):
        one.step(action)
    image.restore(one.state())
    mirror_state(image)
    for env in (one, image):
        env.sim.forward(np.arange(4))
    hills = one.task.scene.ground
    mirrored = replace(image.task.scene, ground=SimpleNamespace(height=lambda x, y: hills.height(x, -y)))
    privileged = slice(one.spec.obs_dim, None)
    critic = one.spec.mirror.critic
    map_ = SignedPermutation(tuple(i - one.spec.obs_dim for i in critic.index[privileged]), critic.sign[privileged])
    here, there = (
        measure.privileged(env.sim, scene, slice(None)) for env, scene in ((one, one.task.scene), (image, mirrored))
    )

    heights = slice(7, 20)  # of the feet and of the trunk; contacts are with the real hills
    np.testing.assert_allclose(seen(map_, here)[:, heights], there[:, heights], atol=1e-9)
    assert np.ptp(here[:, 11:20], axis=1).min() > 1e-3  # they do differ


def test_a_wrong_sign_or_a_wrong_leg_would_show():
    one = quadruped(2, noise=QUIET)
    one.reset()
    for action in some_actions(2, 4):
        step = one.step(action)
    mirror = one.spec.mirror
    changed = np.abs(seen(mirror.obs, step.next_obs["obs"]) - step.next_obs["obs"]).max(axis=0)

    assert (changed[[0, 2, 4, *range(6, 42), *range(51, 87)]] > 0).all()
    assert (changed[[1, 3, 5]] == 0).all()


def test_the_map_has_the_shape_of_the_groups_and_is_found_where_it_is():
    spec = quadruped().spec
    mirror = spec.mirror

    assert (len(mirror.obs), len(mirror.critic), len(mirror.action)) == (129, 129 + 24, 12)
    assert mirror.action.index == tuple(JOINTS)
    assert mirror.action.sign == tuple(TURNS)
    assert mirror.obs.sign[42:45] == (1, -1, -1)
    assert mirror.critic.index[132:140] == (133, 132, 135, 134, 137, 136, 139, 138)
    assert isinstance(probe(EnvConfig(env="unilab/QuadrupedVelocity-v0")).mirror, Mirror)
    assert probe(EnvConfig(env="HalfCheetah-v5")).mirror is None


NOMINAL = "nominal: [0, 0.8, -1.5, 0, 0.8, -1.5,"
FRONT_LEFT = '<geom name="FL_foot" type="sphere" pos="0 0 -0.2"'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NOMINAL, "nominal: [0.1, 0.8, -1.5, 0, 0.8, -1.5,"),
        (NOMINAL, "nominal: [0.1, 0.8, -1.5, 0.1, 0.8, -1.5,"),  # the hips turn the other way
        ("reach: [0.3, 0.5,", "reach: [0.2, 0.5,"),
        (FRONT_LEFT, FRONT_LEFT.replace("0 0 -0.2", "0 0 -0.19")),
        ('<site name="imu"', '<site name="imu" euler="0 0 0.1"'),
        ('<joint name="FL_hip" class="hip"/>', '<joint name="FL_hip" class="hip" damping="0.4"/>'),
        ('<body name="RR_thigh" pos="0 -0.08 0">', '<body name="RR_thigh" pos="0 -0.07 0">'),
    ],
)
def test_a_robot_whose_sides_differ_has_no_mirror(tmp_path, old, new):
    assert robot_mirror(tmp_path, old, new) is None


@pytest.mark.parametrize(
    ("old", "new", "sign"),
    [
        (NOMINAL, "nominal: [0.1, 0.8, -1.5, -0.1, 0.8, -1.5,", -1),
        ('<joint name="FR_hip" class="hip"/>', '<joint name="FR_hip" class="hip" axis="-1 0 0"/>', 1),
        (
            "joints: [FL_hip, FL_thigh, FL_calf, FR_hip, FR_thigh, FR_calf,",
            "joints: [FR_hip, FR_thigh, FR_calf, FL_hip, FL_thigh, FL_calf,",
            -1,
        ),
    ],
)
def test_joints_are_paired_by_where_they_lie_and_how_they_turn(tmp_path, old, new, sign):
    mirror = robot_mirror(tmp_path, old, new)

    assert mirror.action.index == tuple(JOINTS)
    assert mirror.action.sign[:6] == (sign, 1, 1, sign, 1, 1)


def robot_mirror(folder, old, new):
    """Of the robot that comes along, with one thing changed."""
    texts = {path.suffix: path.read_text() for path in ROBOTS.glob("quadruped.*")}
    assert sum(text.count(old) for text in texts.values()) == 1
    for suffix, text in texts.items():
        (folder / f"quadruped{suffix}").write_text(text.replace(old, new))
    return QuadrupedVelocity(robot=str(folder / "quadruped.yaml")).mirror()
