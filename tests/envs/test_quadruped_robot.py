"""A robot of another make drops in by one YAML file."""

import dataclasses
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from quadruped_env import ENV_ID, quadruped

import unilab.envs.tasks.quadruped.robot as robot_module
from unilab.envs.registry import EnvConfig, probe
from unilab.envs.tasks.quadruped.rewards import Weights
from unilab.envs.tasks.quadruped.robot import load_robot
from unilab.errors import EnvError

ROBOTS = Path(robot_module.__file__).parent / "robots"
OWN = yaml.safe_load((ROBOTS / "quadruped.yaml").read_text()) | {"model": str(ROBOTS / "quadruped.xml")}
MODEL = (ROBOTS / "quadruped.xml").read_text()
SERVO = {"kp": 20, "torque": 30}


def refused(tmp_path, content):
    file = tmp_path / "robot.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    with pytest.raises(EnvError) as error:
        probe(EnvConfig(env=ENV_ID, env_kwargs={"robot": str(file)}))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nominl": []}, "unknown key 'nominl'; did you mean 'nominal'?"),
        ({"height": None}, "height=None must be a positive number of metres"),
        ({"height": -1}, "height=-1 must be a positive number of metres"),
        ({"joints": ["a"] * 12}, "must be a list of 12 different names"),
        ({"feet": ["FL_foot"]}, "feet=['FL_foot'] must be a list of 4 different names"),
        ({"reach": 0}, "reach=0 must be a positive number, or a list of 12, one a joint"),
        ({"nominal": [0, 1]}, "nominal=[0, 1] must be a number, or a list of 12"),
        ({"nominal": 0.0}, "the nominal angle 0.0 of 'FL_calf' is outside its range [-2.7, -0.85]"),
        ({"trunk": "body"}, "the body 'body' must have the only free joint; bodies that have one: ['trunk']"),
        ({"sensors": {"gyro": "gyro"}}, "sensors: up is missing"),
        ({"sensors": {"gyro": "gyros", "up": "up"}}, "has no sensor 'gyros'; did you mean 'gyro'?"),
        ({"servo": {"kp": 20}}, "servo: torque is missing"),
        ({"servo": SERVO | {"kd": 1}}, "servo: unknown key 'kd'"),
        ({"model": "nothing.xml"}, "there is no file"),
        ({"model": "no_such_package_y:a.xml"}, "needs the package 'no_such_package_y', which is not installed"),
    ],
)
def test_a_robot_file_that_cannot_work_is_refused_in_one_sentence(tmp_path, change, words):
    assert words in refused(tmp_path, OWN | change)


def test_a_file_that_is_no_mapping_or_no_yaml_or_lacks_a_key_is_refused(tmp_path):
    assert "must be a mapping of keys to values" in refused(tmp_path, "- 1")
    assert "cannot be read" in refused(tmp_path, "a: [")
    assert "trunk is missing" in refused(tmp_path, {key: value for key, value in OWN.items() if key != "trunk"})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'name="FL_hip" class="hip"/>\n        <geom',
            'name="x" class="hip"/>\n        <geom',
            "has no joint 'FL_hip'",
        ),
        ('name="FL_foot"', 'name="FL_shoe"', "has no geom 'FL_foot'"),
        ('<position name="FL_hip" joint="FL_hip" class="hip"/>', "", "11 actuators, not one a joint; give the robot a"),
        ('<position name="FL_hip" joint', '<motor name="FL_hip" joint', "joint 'FL_hip' has no position servo"),
        ("<worldbody>", "<worldbody><geom type='plane' size='1 1 1'/>", "is a ground, which the task adds"),
        ("</mujoco>", "", "cannot be used: "),
        ('<gyro name="gyro" site="imu"/>', '<touch name="gyro" site="imu"/>', "sensor 'gyro' gives 1 numbers, not 3"),
    ],
)
def test_a_model_that_lacks_what_the_file_names_is_refused(tmp_path, old, new, words):
    assert MODEL.count(old) == 1
    (tmp_path / "robot.xml").write_text(MODEL.replace(old, new))
    assert words in refused(tmp_path, OWN | {"model": "robot.xml"})


def test_a_servo_section_replaces_the_models_own_actuators(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(OWN | {"servo": SERVO | {"kv": 0.5, "armature": 0.02}}))
    model = quadruped(robot=str(file)).sim.model

    assert model.nu == 12
    np.testing.assert_array_equal(model.actuator_gainprm[:, 0], 20)
    np.testing.assert_array_equal(model.actuator_biasprm[:, 1:3], [[-20, -0.5]] * 12)
    np.testing.assert_array_equal(model.actuator_forcerange, [[-30, 30]] * 12)
    np.testing.assert_array_equal(model.dof_armature[6:], 0.02)


def test_joints_in_another_order_are_the_same_robot(tmp_path):
    turn = [*range(3, 12), *range(3)]
    moved = {key: [OWN[key][i] for i in turn] for key in ("joints", "nominal", "reach")}
    file = tmp_path / "turned.yaml"
    file.write_text(yaml.safe_dump(OWN | moved))
    plain, turned = (quadruped(2, seed=4, noise={"gyro": 0}, robot=name) for name in ("quadruped", str(file)))
    for env in (plain, turned):
        env.reset()
    turned.sim.qpos[:], turned.sim.qvel[:] = plain.sim.qpos, plain.sim.qvel
    action = np.random.default_rng(0).uniform(-1, 1, (2, 12)).astype(np.float32)
    for _ in range(3):
        a, b = plain.step(action), turned.step(action[:, turn])
        np.testing.assert_allclose(b.reward, a.reward, rtol=1e-5)
        np.testing.assert_allclose(
            b.next_obs["critic"][:, 6:18], a.next_obs["critic"][:, 6:18][:, turn], rtol=1e-5, atol=1e-6
        )


def test_the_robot_file_in_the_docs_works_as_it_stands_there(tmp_path):
    docs = (Path(__file__).resolve().parents[2] / "docs/envs.md").read_text()
    (text,) = re.findall(r"```yaml\n(model: my_robot.xml.*?)```", docs, re.DOTALL)
    (tmp_path / "my_robot.xml").write_text(MODEL)
    (tmp_path / "my_robot.yaml").write_text(text)
    env = quadruped(robot=str(tmp_path / "my_robot.yaml"))
    env.reset()
    for _ in range(50):
        assert not env.step(np.zeros((1, 12), np.float32)).terminated.any()


def test_the_defaults_in_the_docs_are_those_of_the_code():
    docs = (Path(__file__).resolve().parents[2] / "docs/envs.md").read_text()
    (row,) = re.findall(r"\| `rewards` \|(.*)\|", docs)
    said = {name: float(value) for name, value in re.findall(r"`(\w+)` (-?[\d.e-]+)", row)}
    assert said == {field.name: field.default for field in dataclasses.fields(Weights)}


@pytest.mark.skipif(importlib.util.find_spec("mjlab") is None, reason="needs the models of the package mjlab")
def test_unitree_go1_drops_in_by_its_yaml_file():
    env = quadruped(4, robot="unitree_go1")
    env.reset()
    for _ in range(100):
        step = env.step(np.zeros((4, 12), np.float32))
        assert not step.terminated.any(), "it stands"
    assert step.next_obs["critic"][:, -21:-17].tolist() == [[1, 1, 1, 1]] * 4
    assert env.sim.model.body_mass.sum() == pytest.approx(12.74, abs=0.01)
    assert (env.sim.model.actuator_forcerange[:3, 1] == [23.7, 23.7, 35.5]).all()
    assert env.spec.obs_dim == 129


def test_the_robot_that_comes_with_unilab_is_of_plain_shapes_and_has_limited_servos():
    robot, path = load_robot("quadruped")
    model = quadruped().sim.model

    assert path == ROBOTS / "quadruped.xml"
    assert len(robot.joints) == 12
    assert model.nmesh == 0
    assert (model.actuator_forcelimited == 1).all()
    assert (model.actuator_forcerange[:, 1] == np.tile([24, 24, 36], 4)).all()
