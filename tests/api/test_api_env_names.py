"""What names an env: an id, a class or a factory, as long as another process can make it."""

import functools

import gymnasium as gym
import model_samples
import pytest
from model_samples import Joint, make_joint

from unilab.api.env_name import name_env
from unilab.envs import tasks
from unilab.envs.registry import EnvConfig, probe
from unilab.errors import ConfigError, EnvError


@pytest.mark.parametrize(
    ("env", "name", "kwargs"),
    [
        ("Pendulum-v1", "Pendulum-v1", {}),
        ("unilab/Toy-v0", "unilab/Toy-v0", {}),
        ("env_samples:Tagged-v0", "env_samples:Tagged-v0", {}),
        (Joint, "model_samples:Joint", {}),
        (Joint.Inner, "model_samples:Joint.Inner", {}),
        (make_joint, "model_samples:make_joint", {}),
        (functools.partial(Joint, gain=2.0), "model_samples:Joint", {"gain": 2.0}),
    ],
)
def test_an_env_has_a_name_that_any_process_understands(env, name, kwargs):
    assert name_env(env) == (name, kwargs)


@pytest.fixture
def registered(request):
    gym.register("Mine-v3", **request.param)
    yield "Mine-v3"
    del gym.registry["Mine-v3"]


@pytest.mark.parametrize(
    "registered",
    [
        {"entry_point": Joint, "max_episode_steps": 9, "kwargs": {"gain": 3.0}},
        {"entry_point": "model_samples:Joint", "max_episode_steps": 9, "kwargs": {"gain": 3.0}},
    ],
    indirect=True,
)
def test_an_id_that_this_program_registered_becomes_what_was_registered(registered):
    assert name_env(registered) == ("model_samples:Joint", {"gain": 3.0, "max_episode_steps": 9})


@pytest.mark.parametrize("registered", [{"entry_point": lambda: None}], indirect=True)
def test_an_id_that_only_this_program_can_make_is_refused(registered):
    with pytest.raises(ConfigError, match=r"it is a lambda; put it into a file of its own.*my_env\.make_env"):
        name_env(registered)


def test_a_native_task_that_this_program_registered_is_found_in_its_module(monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "mine/Task-v0", Joint)

    assert name_env("mine/Task-v0") == ("model_samples:mine/Task-v0", {})


def in_main():
    cls = type("Robot", (gym.Env,), {"__module__": "__main__"})
    cls.__qualname__ = "Robot"
    return cls


def renamed():
    cls = type("Elsewhere", (gym.Env,), {"__module__": "model_samples"})
    cls.__qualname__ = "Elsewhere"
    return cls


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (lambda: None, "it is a lambda"),
        (type("Local", (gym.Env,), {"__qualname__": "f.<locals>.Local"}), "defined inside a function"),
        (in_main(), r"script or notebook itself; put it into .*my_env\.Robot or 'my_env:Robot'"),
        (renamed(), "module 'model_samples' does not have it"),
        ("__main__:Robot", "script or notebook itself"),
        (Joint(), "an instance of Joint"),
        (3, "an instance of int"),
        (functools.partial(Joint, 2.0), "by name"),
    ],
)
def test_an_env_that_no_other_process_can_make_is_refused_with_the_fix(env, said):
    with pytest.raises(ConfigError, match=said) as caught:
        name_env(env)

    assert "\n" not in str(caught.value)


def test_an_instance_is_refused_with_its_id():
    with gym.make("Pendulum-v1") as env, pytest.raises(ConfigError, match="pass 'Pendulum-v1', with num_envs"):
        name_env(env)


@pytest.mark.parametrize(
    ("name", "kwargs", "limit"),
    [
        ("model_samples:Joint", {}, None),
        ("model_samples:Joint", {"max_episode_steps": 9, "gain": 2.0}, 9),
        ("model_samples:make_joint", {"gain": 2.0}, 7),
    ],
)
def test_a_class_or_factory_of_a_module_is_made_like_an_id(name, kwargs, limit):
    spec = probe(EnvConfig(env=name, env_kwargs=kwargs))

    assert (spec.obs_dim, spec.action_high, spec.max_episode_steps) == (5, (3.0, 10.0), limit)


def test_a_class_that_cannot_be_made_says_why():
    with pytest.raises(
        EnvError, match=r"model_samples:Joint cannot be made with env_kwargs.*unexpected keyword.*'loud'"
    ):
        probe(EnvConfig(env="model_samples:Joint", env_kwargs={"loud": True}))


def test_a_name_that_its_module_does_not_have_is_unknown():
    assert not hasattr(model_samples, "Missing")
    with pytest.raises(EnvError, match="unknown env id 'model_samples:Missing'"):
        probe(EnvConfig(env="model_samples:Missing"))
