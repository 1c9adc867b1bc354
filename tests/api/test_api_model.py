"""A model learns, goes on, is saved and loaded: one runtime, the state on disk."""

import json
import multiprocessing
import os
import signal
from functools import partial

import numpy as np
import pytest
import torch
from model_samples import Boasting, Joint, Options, Sized, Stuck, make_joint, small

from unilab import SAC, TD3, Evaluation, Model, TickInfo, UnilabError
from unilab.config import load_file
from unilab.errors import ConfigError, EnvError
from unilab.rundir import run_lock

OBS = np.array([0.3, 0.5, 0.7])


def action(model):
    return model.predict(OBS, deterministic=True)[0]


def test_learn_trains_saves_evaluates_and_returns_the_model(tmp_path):
    model = small(tmp_path)

    assert model.num_timesteps == 0
    assert model.learn(200) is model
    assert model.num_timesteps == 200
    assert model.summary.status == "completed"
    assert (model.run_dir / "summary.json").is_file()
    assert model.run_dir == (tmp_path / "latest").resolve()
    assert load_file(model.run_dir / "config.yaml", model.config) == model.config


def test_learning_twice_gives_the_bits_of_learning_once(tmp_path):
    once = small(tmp_path / "once").learn(300)
    twice = small(tmp_path / "twice").learn(140).learn(160)

    assert twice.num_timesteps == 300
    assert len(list((tmp_path / "twice/unilab-Toy-v0/sac").iterdir())) == 1, "one run"
    assert twice.summary.learner_digest == once.summary.learner_digest
    assert twice.summary.replay_digest == once.summary.replay_digest


def test_what_was_learnt_is_what_acts(tmp_path):
    model = small(tmp_path)
    before = action(model)
    model.learn(200)
    after = action(model)
    model.learn(100)

    assert len({float(before[0]), float(after[0]), float(action(model)[0])}) == 3


def test_an_evaluation_is_the_run_s_own(tmp_path):
    model = small(tmp_path, "Pendulum-v1").learn(100)
    result = model.evaluate(2)

    assert isinstance(result, Evaluation)
    assert (result.mean_reward, result.std_reward) == (model.summary.final_eval_mean, model.summary.final_eval_std)
    assert list(result.lengths) == [20, 20]
    with pytest.raises(ConfigError, match="episodes=0"):
        model.evaluate(0)


# ------------------------------------------------------------ callbacks


def test_a_callback_sees_each_tick_the_scalars_and_the_evaluations(tmp_path):
    seen: list[TickInfo] = []
    small(tmp_path, eval_every=100).learn(200, callback=seen.append)

    assert [info.num_timesteps for info in seen] == list(range(42, 201, 2))
    assert seen[0].scalars == {}
    assert seen[0].evaluation is None
    assert "train/critic_loss" in seen[-1].scalars
    assert seen[-1].evaluation["eval/mean_ep_length"] > 0
    with pytest.raises(TypeError):
        seen[-1].scalars["mine"] = 1.0


def test_a_callback_that_returns_false_ends_the_run_completed_and_saved(tmp_path):
    model = small(tmp_path).learn(10_000, callback=[lambda info: None, lambda info: info.num_timesteps < 100])

    assert model.num_timesteps == 100
    assert (model.summary.status, model.summary.exit_code) == ("completed", 0)
    assert model.summary.reason == "the callback ended it"
    assert model.learn(50).num_timesteps == 150


def test_a_callback_that_raises_ends_the_run_failed_and_saved(tmp_path):
    def callback(info):
        if info.num_timesteps == 100:
            raise ZeroDivisionError("mine")

    model = small(tmp_path)
    with pytest.raises(ZeroDivisionError, match="mine"):
        model.learn(1000, callback)

    assert json.loads((model.run_dir / "summary.json").read_text())["status"] == "failed"
    assert model.num_timesteps == 100
    assert model.learn(20).num_timesteps == 120


def test_a_callback_is_a_function_of_one_argument(tmp_path):
    with pytest.raises(ConfigError, match="a function of one argument"):
        small(tmp_path).learn(100, callback=object())


# ------------------------------------------------------------ save and load


def test_a_saved_file_acts_and_learns_on_in_a_new_run(tmp_path):
    model = small(tmp_path).learn(200)
    path = model.save(tmp_path / "away/pendulum")
    loaded = SAC.load(tmp_path / "away/pendulum")

    assert path == tmp_path / "away/pendulum.pt"
    assert action(loaded) == action(model)
    assert loaded.num_timesteps == 200
    loaded.learn(100)
    assert loaded.num_timesteps == 100, "a run of its own"
    assert loaded.run_dir != model.run_dir
    assert loaded.config.init_from == path


@pytest.mark.parametrize("part", [".", "checkpoints", "checkpoints/step_000000000200"])
def test_a_run_or_checkpoint_acts_and_learns_on_in_that_run(tmp_path, part):
    model = small(tmp_path).learn(200)
    loaded = SAC.load(model.run_dir / part)

    assert action(loaded) == action(model)
    assert loaded.learn(100).num_timesteps == 300
    assert loaded.run_dir == model.run_dir


def test_the_best_weights_learn_on_in_a_new_run(tmp_path):
    model = small(tmp_path).learn(200)
    loaded = SAC.load(model.run_dir / "best")

    assert loaded.num_timesteps == 200
    assert loaded.learn(100).run_dir != model.run_dir


def test_another_env_is_learnt_in_a_new_run_with_the_networks(tmp_path):
    model = small(tmp_path, "Pendulum-v1").learn(100)
    loaded = SAC.load(model.run_dir, env="unilab/Toy-v0").learn(100)

    assert loaded.run_dir != model.run_dir
    assert loaded.config.env.env == "unilab/Toy-v0"
    assert loaded.config.init_from == model.run_dir


def test_networks_of_other_spaces_are_refused(tmp_path):
    model = small(tmp_path).learn(100)

    with pytest.raises(ConfigError, match="do not fit model_samples:Joint"):
        SAC.load(model.run_dir, env=Joint).predict({"angle": np.zeros((2, 2)), "speed": np.ones(1)})


def test_options_may_be_changed_when_loading_but_not_those_that_the_replay_depends_on(tmp_path):
    model = small(tmp_path).learn(100)
    loaded = SAC.load(model.run_dir, learning_rate=1e-4, log_every=10).learn(50)

    assert loaded.config.learner.learning_rate == 1e-4
    with pytest.raises(ConfigError, match=r"env\.num_envs=4"):
        SAC.load(model.run_dir, num_envs=4).learn(50)


def test_what_cannot_be_loaded_is_said(tmp_path):
    model = small(tmp_path).learn(100)
    spoilt = tmp_path / "spoilt.pt"
    content = bytearray(model.save(spoilt).read_bytes())
    for i in range(len(content) // 3, len(content) // 2):
        content[i] ^= 1
    spoilt.write_bytes(content)
    (tmp_path / "notes.txt").write_text("hello")
    torch.save({"a": 1}, tmp_path / "other.pt")

    for path, said in (
        ("nowhere", "does not exist"),
        ("spoilt.pt", "not a readable model"),
        ("notes.txt", "not a file that torch wrote"),
        ("other.pt", "is not a checkpoint"),
    ):
        with pytest.raises(ConfigError, match=said) as caught:
            SAC.load(tmp_path / path)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"algo=sac; load it with SAC\.load"):
        TD3.load(model.run_dir)


@pytest.mark.parametrize("algo", [SAC, TD3])
def test_before_learn_a_model_acts_is_saved_and_loaded_and_learns_from_there(tmp_path, algo):
    model = small(tmp_path, "Pendulum-v1", model=algo)
    loaded = algo.load(model.save(tmp_path / "untrained"))

    assert action(loaded) == action(model)
    assert (loaded.num_timesteps, loaded.run_dir) == (0, None)
    other = small(tmp_path / "other", "Pendulum-v1", model=algo, seed=4)
    assert action(other) != action(model), "the seed decides"
    assert action(loaded.learn(200)) != action(model)
    assert loaded.num_timesteps == 200


def test_what_is_saved_before_learn_is_what_learn_begins_with(tmp_path):
    model = small(tmp_path, learning_rate=1e-12)
    before = action(model)

    np.testing.assert_allclose(action(model.learn(60)), before, atol=1e-7)
    started = small(tmp_path / "b", init_from=small(tmp_path, seed=9).learn(200).run_dir)
    saved = SAC.load(started.save(tmp_path / "c"))
    assert action(saved) == action(SAC.load(started.config.init_from))


# ------------------------------------------------------------ manners


@pytest.mark.parametrize(("verbose", "bar", "prints"), [(0, False, False), (1, False, True), (0, True, True)])
def test_it_prints_when_it_is_asked_to(tmp_path, capsys, verbose, bar, prints):
    small(tmp_path, verbose=verbose).learn(60, progress_bar=bar)

    assert ("env_steps=60" in capsys.readouterr().out) == prints


def test_torch_has_its_threads_back(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        small(tmp_path).learn(60)

        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("steps", "fields", "said"),
    [
        (0, {}, "must be greater than 0"),
        ("many", {}, "total_timesteps='many'"),
        (1e3, {"log_interval": 4}, "log_every"),
        (1e3, {"tb_log_name": "x"}, "name of the run directory"),
        (1e3, {"callbak": 4}, "no such argument"),
        (20, {}, "ends within the prefill"),
    ],
)
def test_learn_refuses_in_a_sentence(tmp_path, steps, fields, said):
    with pytest.raises(UnilabError, match=said):
        small(tmp_path).learn(steps, **fields)


def test_env_steps_are_counted_on(tmp_path):
    model = small(tmp_path).learn(60, reset_num_timesteps=True)

    with pytest.raises(ConfigError, match="init_from"):
        model.learn(60, reset_num_timesteps=True)


def test_a_run_that_is_refused_leaves_the_model_as_it_was(tmp_path):
    model = small(tmp_path).learn(60)
    run_dir = model.run_dir
    with pytest.raises(UnilabError):
        model.learn(0)

    assert (model.run_dir, model.num_timesteps) == (run_dir, 60)


def test_every_algorithm_has_a_class():
    import unilab
    from unilab.algos.registry import ALGORITHMS

    models = [getattr(unilab, entry.rule.__name__) for entry in ALGORITHMS.values()]
    assert [model.algo for model in models] == list(ALGORITHMS)
    assert all(issubclass(model, Model) and model.__name__ in dir(unilab) for model in models)
    with pytest.raises(ImportError, match="SAX"):
        exec("from unilab import SAX")
    with pytest.raises(AttributeError, match="did you mean 'SAC'"):
        _ = unilab.SAX


# ------------------------------------------------------------ an env that hangs


def test_an_env_that_cannot_be_made_in_time_raises_here_and_the_program_goes_on(tmp_path):
    model = small(tmp_path, Stuck, serial=False, start_limit_s=0.5)
    with pytest.raises(EnvError, match=r"it is stuck: making one model_samples:Stuck to look at took more than 0\.5 s"):
        model.learn(100)
    with pytest.raises(EnvError, match="it is stuck"):
        model.predict(OBS)

    assert model.run_dir is None


def test_another_env_does_not_get_the_keyword_arguments_of_the_first(tmp_path):
    model = small(tmp_path, partial(make_joint, gain=3.0))
    path = model.save(tmp_path / "model")

    assert SAC.load(path).config.env.env_kwargs == {"gain": 3.0}
    assert SAC.load(path, env=Joint).config.env.env_kwargs == {}
    assert SAC.load(path, env=partial(Joint, gain=2.0)).config.env.env_kwargs == {"gain": 2.0}
    assert SAC.load(path, env="Pendulum-v1", env_kwargs={"g": 9.0}).config.env.env_kwargs == {"g": 9.0}


def test_the_same_env_with_other_keyword_arguments_is_learnt_in_a_new_run(tmp_path):
    model = small(tmp_path, partial(make_joint, gain=3.0)).learn(60)

    assert SAC.load(model.run_dir, env=partial(make_joint, gain=3.0)).learn(20).run_dir == model.run_dir
    assert SAC.load(model.run_dir, env=partial(make_joint, gain=2.0)).learn(60).run_dir != model.run_dir


def test_a_metric_is_no_evaluation(tmp_path):
    model = small(tmp_path, Boasting, stop_at_return=100.0, eval_every=60).learn(120)

    assert model.num_timesteps == 120, "it stopped for a return that nobody had"
    assert model.summary.final_eval_mean == model.summary.best_eval_mean == -5.0
    [first, *_] = map(json.loads, (model.run_dir / "eval.jsonl").read_text().splitlines())
    assert (first["mean_reward"], first["std_reward"], first["mean_ep_length"]) == (-5.0, 0.0, 5.0)
    assert model.evaluate(2).mean_reward == -5.0


@pytest.mark.parametrize("kwargs", [{"a": (1, 2)}, {"a": float("nan")}, {"a": {"b": (1.0, float("inf"))}}])
def test_learning_goes_on_whatever_the_env_s_keyword_arguments_are(tmp_path, kwargs):
    model = small(tmp_path, Options, env_kwargs=kwargs).learn(60)

    assert model.learn(20).num_timesteps == 80
    assert SAC.load(model.run_dir).learn(20).num_timesteps == 100


def test_a_program_that_goes_elsewhere_takes_its_model_along(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    model = small("runs").learn(60)
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert model.learn(20).num_timesteps == 80
    assert model.run_dir.is_relative_to(tmp_path / "runs")


def test_a_worker_of_a_pool_says_that_it_may_start_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})

    with pytest.raises(ConfigError, match="ProcessPoolExecutor, or serial=True"):
        small(tmp_path, serial=False).learn(60)
    assert small(tmp_path).learn(60).num_timesteps == 60


@pytest.mark.parametrize("episodes", [0, 2.5, "3", True, None])
def test_episodes_are_a_positive_whole_number(tmp_path, episodes):
    with pytest.raises(ConfigError, match="must be a whole number from 1 on"):
        small(tmp_path).evaluate(episodes)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"obs": 3, "act": 1}, {"obs": 2, "act": 3}, r"obs_dim=3 \(now 2\), action_dim=1 \(now 3\)"),  # rows as wide
        ({"low": -2.0}, {"low": -10.0}, r"action_low=\[-2\.0\] \(now \[-10\.0\]\)"),
        ({"high": 2.0}, {"high": 2.5}, r"action_high=\[2\.0\] \(now \[2\.5\]\)"),
    ],
)
def test_rows_that_stand_for_something_else_are_refused(tmp_path, before, now, said):
    model = small(tmp_path, Sized, env_kwargs=before).learn(60)

    small(tmp_path, Sized, env_kwargs=before, replay_from=model.run_dir).learn(60)
    with pytest.raises(ConfigError, match=f"other spaces than this run's env has: {said}"):
        small(tmp_path, Sized, env_kwargs=now, replay_from=model.run_dir).learn(60)


def test_a_run_does_not_go_on_in_an_env_whose_bounds_have_changed(tmp_path):
    model = small(tmp_path, Sized, env_kwargs={"low": -2.0}).learn(60)

    with pytest.raises(ConfigError, match=r"has other spaces than when .* was saved: action_low=\[-2\.0\] \(now"):
        SAC.load(model.run_dir, env_kwargs={"low": -3.0}).learn(20)


def test_a_refused_learn_leaves_an_older_checkpoint_loaded(tmp_path):
    model = small(tmp_path, save_every=60, keep=0).learn(200)
    oldest = min((model.run_dir / "checkpoints").glob("step_*"))
    loaded = SAC.load(oldest)
    steps, acts = loaded.num_timesteps, action(loaded)

    with run_lock(model.run_dir), pytest.raises(ConfigError, match="in use"):
        loaded.learn(100)

    assert steps < 200
    assert (loaded.num_timesteps, action(loaded)) == (steps, acts)


def test_an_interrupt_that_the_program_ignores_has_ended_the_run_all_the_same(tmp_path):
    # A shell script starts what it puts in the background so.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            small(tmp_path).learn(10_000, lambda info: os.kill(os.getpid(), signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
