"""Which backend a config gets, and what is said about it."""

import subprocess
import sys

import pytest

from unilab import cli
from unilab.envs.choice import choose
from unilab.envs.mujoco_batch import MujocoBatchEnv
from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.envs.tasks import TASKS
from unilab.errors import ConfigError, EnvError


@pytest.mark.parametrize("env_id", TASKS)
def test_auto_takes_the_native_task_where_there_is_one(env_id):
    choice = choose(EnvConfig(env=env_id))

    assert (choice.name, choice.why) == ("mujoco", "native task")


@pytest.mark.parametrize(
    ("cfg", "why"),
    [
        (EnvConfig(env="Pendulum-v1"), "no native task has this id"),
        (EnvConfig(env="HalfCheetah-v4"), "no native task has this id"),
        (EnvConfig(env="env_samples:HalfCheetah-v5"), "the id is what its module registered"),
        (EnvConfig(env_kwargs={"width": 64}), "the native task has no option 'width'"),
        (EnvConfig(vec="async"), "vec=async has no effect on a native task, which steps all envs at once"),
        (EnvConfig(backend="gymnasium"), "as asked"),
    ],
)
def test_everything_else_goes_to_gymnasium_and_the_reason_is_known(cfg, why):
    choice = choose(cfg)

    assert (choice.name, choice.why) == ("gymnasium", why)


def test_an_option_of_the_task_or_of_the_limit_stays_native():
    cfg = EnvConfig(env_kwargs={"ctrl_cost_weight": 1, "max_episode_steps": 9, "stagger": False})

    assert isinstance(make_env(cfg, seed=0), MujocoBatchEnv)
    assert probe(cfg).max_episode_steps == 9


@pytest.mark.parametrize(
    ("cfg", "words"),
    [
        (EnvConfig(env="Pendulum-v1", backend="mujoco"), "backend=mujoco has no task 'Pendulum-v1'"),
        (EnvConfig(env="HalfCheeta-v5", backend="mujoco"), "did you mean 'HalfCheetah-v5'?"),
        (EnvConfig(backend="mujoco", vec="async"), "HalfCheetah-v5: vec=async has no effect"),
        (EnvConfig(backend="mujoco", critic_keys=("a",)), "critic_keys needs a Dict observation"),
        (EnvConfig(backend="mujoco", action_bound=2.0), "action_bound has no effect"),
        (EnvConfig(backend="mujoco", env_kwargs={"render_mode": "human"}), "no option 'render_mode'"),
        (EnvConfig(backend="mujoco", env_kwargs={"ctrl_cost_wieght": 1}), "did you mean 'ctrl_cost_weight'?"),
        (EnvConfig(backend="mujoco", env_kwargs={"xml_file": "nothing.xml"}), "there is no file"),
        (EnvConfig(env="unilab/Toy-v0", backend="mujoco"), "backend=mujoco has no effect"),
        (EnvConfig(env="no_such_module_y:A-v0", backend="mujoco"), "cannot import module 'no_such_module_y'"),
    ],
)
def test_what_a_backend_cannot_do_is_refused_in_one_sentence(cfg, words):
    with pytest.raises(EnvError) as error:
        probe(cfg)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_backend_is_refused():
    with pytest.raises(ConfigError, match="backend='brax' is unknown; use one of auto, mujoco, gymnasium, envpool"):
        EnvConfig(backend="brax")


def test_the_flag_is_refused_before_a_run_with_exit_code_2(tmp_path, capsys):
    words = ["--env", "Pendulum-v1", "--backend", "mujoco", "--log-dir", str(tmp_path)]

    assert cli.train_main(words) == 2
    assert "backend=mujoco has no task 'Pendulum-v1'" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_task_of_another_module_is_found_by_auto(tmp_path):
    """The module is imported where the env is chosen, in any process."""
    (tmp_path / "my_tasks.py").write_text(
        "from unilab.envs.tasks import register\n"
        "from unilab.envs.tasks.half_cheetah import HalfCheetah\n"
        "register('Mine-v0', HalfCheetah)\n"
    )
    code = (
        "from unilab.envs.registry import *\n"
        "cfg = EnvConfig(env='my_tasks:Mine-v0', num_envs=2)\n"
        "assert probe(cfg).env_id == 'my_tasks:Mine-v0'\n"
        "assert make_env(cfg, seed=0).reset()['obs'].shape == (2, 17)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_an_env_without_mujoco_is_spared_its_import():
    code = (
        "import sys; from unilab.envs.choice import choose; from unilab.envs.registry import EnvConfig;"
        "choose(EnvConfig(env='Pendulum-v1')); assert 'mujoco' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
