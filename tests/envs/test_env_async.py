import multiprocessing
import os
import select
import signal
import time
import traceback

import numpy as np
import pytest

from unilab.envs.gymnasium_async import _one_thread_each
from unilab.envs.gymnasium_guard import pack_error, unpack_error
from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.errors import EnvError, WorkerDied

ZEROS = np.zeros((2, 1), np.float32)


@pytest.fixture
def make():
    made = []

    def make(name, critic_keys=(), **kwargs):
        env_id = f"env_samples:{name}-v0"
        cfg = EnvConfig(env=env_id, num_envs=2, vec="async", env_kwargs=kwargs, critic_keys=critic_keys)
        made.append(make_env(cfg, seed=1, first_index=4))
        return made[-1]

    yield make
    for env in made:
        env.close()


def processes(env):
    return env._vec._vec.processes


def ends(pidfd):
    """Whether the process ends within 10 s."""
    return bool(select.select([pidfd], [], [], 10)[0])


def text_of(error):
    return "".join(traceback.format_exception(error))


def test_an_exception_comes_home_with_its_type_traceback_env_and_step(make):
    env = make("Failing", fail="step", at=2)
    env.reset()
    env.step(ZEROS)

    with pytest.raises(ValueError, match="boom in step") as error:
        env.step(ZEROS)
    assert error.value.__notes__ == ["env index 4, step 2"]
    assert text_of(error.value).count('raise ValueError("boom in step")') == 1
    assert "env_samples.py" in text_of(error.value)


def test_an_exception_in_a_reset_and_one_in_the_constructor_come_home(make, monkeypatch):
    env = make("Failing", fail="reset")
    env.reset()
    with pytest.raises(RuntimeError, match="boom in reset") as error:
        env.step(ZEROS)
    assert error.value.__notes__ == ["env index 4, reset after step 1"]

    spec = probe(EnvConfig(env="env_samples:Failing-v0", env_kwargs={"fail": "init"}))
    monkeypatch.setenv("ENV_SAMPLES_FAIL", "1")
    cfg = EnvConfig(env="env_samples:Failing-v0", env_kwargs={"fail": "init"}, vec="async")
    env = make_env(cfg, seed=1, spec=spec)
    with pytest.raises(EnvError, match=r"cannot be made.*OSError: no licence"):
        env.reset()
    env.close()


def test_a_killed_env_process_is_named_with_its_signal_and_closing_still_works(make):
    env = make("Failing", fail="never")
    env.reset()
    os.kill(processes(env)[1].pid, signal.SIGKILL)

    with pytest.raises(WorkerDied, match="env index 5 was killed by SIGKILL"):
        env.step(ZEROS)
    started = time.monotonic()
    env.close()
    assert time.monotonic() - started < 5
    assert not any(process.is_alive() for process in processes(env))


def test_env_processes_die_with_the_process_that_made_them_even_in_the_middle_of_a_step():
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:  # stands for a collector that is killed
        cfg = EnvConfig(env="env_samples:Failing-v0", num_envs=2, vec="async", env_kwargs={"fail": "hang", "at": 2})
        env = make_env(cfg, seed=1)
        env.reset()
        env.step(ZEROS)
        os.write(write, " ".join(str(process.pid) for process in processes(env)).encode())
        env.step(ZEROS)
        os._exit(0)
    os.close(write)
    pidfds = [os.pidfd_open(int(pid)) for pid in os.read(read, 100).split()]
    os.close(read)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)

    assert len(pidfds) == 2
    assert all(ends(pidfd) for pidfd in pidfds)
    for pidfd in pidfds:
        os.close(pidfd)


def test_the_critic_group_crosses_the_process_border(make):
    env = make("Keyed", critic_keys=("secret",))

    assert env.reset()["critic"].tolist() == [[3, 4, 5, 1, 2, 9]] * 2
    step = env.step(ZEROS)
    assert step.next_obs["obs"].tolist() == [[3, 4, 5, 1, 2]] * 2
    assert env.spec.obs_keys == ("arm", "vel")


def test_infos_that_cannot_be_pickled_stay_where_they_are(make):
    env = make("WeirdInfo")
    env.reset()

    assert [env.step(ZEROS).reward.tolist() for _ in range(3)] == [[1, 1]] * 3


def test_an_exception_that_cannot_be_pickled_comes_home_as_text():
    class LocalError(Exception):
        pass

    try:
        raise LocalError("in a function")
    except LocalError as error:
        error.add_note("env index 3, step 4")
        home = unpack_error(pack_error(error))

    assert type(home) is RuntimeError
    assert str(home) == "LocalError: in a function"
    assert home.__notes__ == ["env index 3, step 4"]
    assert 'raise LocalError("in a function")' in text_of(home)


def test_env_processes_get_one_thread_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)

    with _one_thread_each():
        assert (os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]) == ("3", "1")
    assert "MKL_NUM_THREADS" not in os.environ


def test_a_daemonic_process_is_told_that_it_cannot_start_env_processes(monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)

    with pytest.raises(EnvError, match="cannot start processes in a daemonic one"):
        make_env(EnvConfig(env="env_samples:Keyed-v0", vec="async"), seed=1)
