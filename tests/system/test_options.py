"""Every option changes something, and no option is without such a proof."""

from __future__ import annotations

import csv
import dataclasses
import importlib.machinery
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from unilab.checkpoint import list_checkpoints, read_meta
from unilab.config import TrainConfig, check, overlay
from unilab.errors import ConfigError, WorkerDied
from unilab.resume import open_resume, saved_config
from unilab.rundir import RunSummary
from unilab.telemetry.trace_read import read_trace
from unilab.train import train

BASE: dict[str, Any] = {
    "total_steps": 300,
    "threads": 2,
    "serial": True,
    "env": {"env": "unilab/Toy-v0", "num_envs": 2},
    "learner": {"hidden": [8, 8]},
    "replay": {"batch_size": 8, "buffer_size": 100, "learning_starts": 40},
    "evaluation": {"eval_episodes": 0},
}

LEARNING = {
    "total_steps": 320,
    "seed": 1,
    "algo": "td3",
    "env.env": "Other-v0",
    "env.env_kwargs": {"episode_length": 3, "ends": "terminated"},
    "env.num_envs": 3,
    "learner.gamma": 0.5,
    "learner.n_step": 3,
    "learner.tau": 0.5,
    "learner.learning_rate": 1e-2,
    "learner.policy_delay": 3,
    "learner.hidden": [8],
    "learner.critic_hidden": [8],
    "learner.norm_obs": True,
    "learner.norm_reward": True,
    "learner.lr_schedule": "cosine",
    "learner.adam_betas": [0.5, 0.9],
    "learner.weight_decay": 0.5,
    "learner.max_grad_norm": 1e-3,
    "precision": "bf16",
    "replay.buffer_size": 90,
    "replay.learning_starts": 60,
    "replay.warmup": "policy",
    "replay.batch_size": 9,
    "pacing.utd": 0.5,
    "pacing.steps_per_tick": 2,
    "pacing.num_collectors": 2,
    "sac.ent_coef": "auto_0.1",
    "sac.target_entropy": -3.0,
    "sac.critic_layer_norm": True,
}
"""Options that change what is computed, with another value."""

OTHERS_LEARNING = {
    "td3.exploration_noise": 0.5,
    "td3.noise_schedule": "linear",
    "td3.noise_final": 0.5,
    "td3.target_noise": 0.9,
    "td3.noise_clip": 0.01,
    "td3.critic_layer_norm": True,
    "flashsac.ent_coef": "auto_0.1",
    "flashsac.target_std": 0.5,
    "flashsac.atoms": 51,
    "flashsac.value_bound": 2.0,
    "flashsac.noise_steps": 1,
    "crossq.ent_coef": "auto_0.1",
    "crossq.target_entropy": -3.0,
    "crossq.norm_momentum": 0.5,
    "crossq.renorm_warmup": 10,
    "fasttd3.noise_min": 0.3,
    "fasttd3.noise_max": 0.8,
    "fasttd3.noise_schedule": "cosine",
    "fasttd3.noise_final": 0.5,
    "fasttd3.target_noise": 0.6,
    "fasttd3.noise_clip": 0.0,
    "fasttd3.atoms": 11,
    "fasttd3.v_min": -3.0,
    "fasttd3.v_max": 7.0,
    "fastsac.ent_coef": "auto_0.1",
    "fastsac.target_entropy": -3.0,
    "fastsac.log_std_min": -3.0,
    "fastsac.log_std_max": 1.0,
    "fastsac.atoms": 11,
    "fastsac.v_min": -3.0,
    "fastsac.v_max": 7.0,
}
"""Options of the algorithms beside SAC."""


def base_of(algo: str) -> dict[str, Any]:
    """The toy's rewards are in the thousands: only scaled returns fit on a categorical critic's support."""
    return {"algo": algo, "learner.norm_reward": algo.startswith("fast")}


def needed(name: str) -> dict[str, Any]:
    """What must be set so that an option has any effect."""
    return {f"{name.partition('.')[0]}.noise_schedule": "linear"} if name.endswith(".noise_final") else {}


def settings(log_dir: Path, changes: dict[str, Any]) -> TrainConfig:
    cfg = overlay(TrainConfig(log_dir=log_dir), BASE, "test")
    for dotted, value in changes.items():
        section, _, name = dotted.rpartition(".")
        cfg = overlay(cfg, {section: {name: value}} if section else {name: value}, "test")
    return cfg


def run(log_dir: Path, **changes: Any) -> tuple[RunSummary, Path]:
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    summary = train(settings(log_dir, changes))
    return summary, Path(str(summary.checkpoint)).parent.parent


@pytest.fixture(autouse=True)
def _other_env() -> Iterator[None]:
    """An env that is not the toy: found in this process, which is enough in serial mode."""
    gym.register("Other-v0", entry_point=Other, max_episode_steps=7)
    yield
    del gym.registry["Other-v0"]


class Other(gym.Env[Any, Any]):
    observation_space = gym.spaces.Dict({name: gym.spaces.Box(-1, 1, (2,), np.float32) for name in ("seen", "hidden")})

    def __init__(self, bounded: bool = True) -> None:
        size = 1.0 if bounded else np.inf
        self.action_space = gym.spaces.Box(-size, size, (1,), np.float32)
        self.actions: list[float] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        return self._obs(), float(action[0]), False, False, {}

    def _obs(self) -> Any:
        return {name: self.np_random.uniform(-1, 1, 2).astype(np.float32) for name in ("seen", "hidden")}


@pytest.fixture(scope="module")
def base_digests(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    known: dict[str, str] = {}

    def digest_of(algo: str) -> str:
        if algo not in known:
            known[algo] = str(train(settings(tmp_path_factory.mktemp(algo), base_of(algo))).learner_digest)
        return known[algo]

    return digest_of


@pytest.mark.parametrize("name", [*LEARNING, *OTHERS_LEARNING])
def test_an_option_of_learning_changes_what_is_learnt(
    tmp_path: Path, name: str, base_digests: Callable[[str], str]
) -> None:
    algo = name.partition(".")[0] if name in OTHERS_LEARNING else "sac"
    base = base_of(algo) | needed(name)
    summary = train(settings(tmp_path / "with", base | {name: (LEARNING | OTHERS_LEARNING)[name]}))

    plain = train(settings(tmp_path / "without", base)).learner_digest if needed(name) else base_digests(algo)
    assert summary.learner_digest != plain


def test_critic_keys_hide_a_part_from_the_actor(tmp_path: Path) -> None:
    all_seen, _ = run(tmp_path, env__env="Other-v0")
    some_hidden, _ = run(tmp_path, env__env="Other-v0", env__critic_keys=["hidden"])

    def first_layer(summary: RunSummary) -> torch.Size:
        state = torch.load(Path(str(summary.checkpoint)) / "state.pt", weights_only=True)
        return next(value for key, value in state["policy"].items() if key.endswith("weight")).shape

    assert (first_layer(all_seen)[1], first_layer(some_hidden)[1]) == (4, 2)


def test_an_action_bound_lets_an_unbounded_box_train(tmp_path: Path) -> None:
    unbounded = {"env__env": "Other-v0", "env__env_kwargs": {"bounded": False}}
    small, _ = run(tmp_path, env__action_bound=0.5, **unbounded)
    large, _ = run(tmp_path, env__action_bound=4.0, **unbounded)

    assert small.replay_digest != large.replay_digest  # the reward is the action in env units


def test_files_are_written_as_often_as_asked(tmp_path: Path) -> None:
    _, folder = run(tmp_path, log_every=50, save_every=40, keep=3)
    rows = list(csv.DictReader((folder / "progress.csv").open()))

    assert len(rows) == 6
    assert [path.name for path in list_checkpoints(folder / "checkpoints")] == [
        "step_000000000242",
        "step_000000000282",
        "step_000000000300",
    ]
    _, folder = run(tmp_path, log_every=150, save_every=0, keep=0)
    assert len(list(csv.DictReader((folder / "progress.csv").open()))) == 2
    assert len(list_checkpoints(folder / "checkpoints")) == 1


def test_name_and_log_dir_say_where(tmp_path: Path) -> None:
    _, folder = run(tmp_path / "there", name="mine")

    assert folder == tmp_path / "there/unilab-Toy-v0/sac/mine"


def test_a_trace_is_written_on_request(tmp_path: Path) -> None:
    with_trace, folder = run(tmp_path, trace=True)
    without, _ = run(tmp_path, trace=False)

    assert with_trace.trace == str(folder / "trace.json")
    assert without.trace is None


def test_the_trace_options_say_what_is_in_it(tmp_path: Path) -> None:
    _, whole = run(tmp_path / "whole", trace=True)
    _, few = run(tmp_path / "few", trace=True, trace_ticks="10:12", trace_cpu=True)
    with pytest.raises(ConfigError, match="trace_cpu=True would have no effect without --trace"):
        check(TrainConfig(trace_cpu=True))

    ticks, few_ticks = (
        [span for span in read_trace(folder / "trace.json").process("learner").main if span.name == "tick"]
        for folder in (whole, few)
    )
    assert len(ticks) == 130
    assert [tick.args["tick"] for tick in few_ticks] == [10, 11, 12]
    assert ticks[0].cpu is None
    assert all(0 < (tick.cpu or 0) <= 1.05 * tick.seconds for tick in few_ticks)


def test_a_trace_past_its_size_limit_is_cut_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limited = {"trace": True, "trace_mb": 1, "total_steps": 10_000}
    summary, folder = run(tmp_path, **limited, replay__learning_starts=9_950)

    assert summary.exit_code == 0
    assert "the trace is cut: it reached --trace-mb 1" in capsys.readouterr().out
    assert 0.9e6 < (folder / "trace.json").stat().st_size < 1.01e6
    assert read_trace(folder / "trace.json").whole


def test_evaluation_episodes_give_the_final_evaluation(tmp_path: Path) -> None:
    assert run(tmp_path)[0].final_eval_mean is None
    assert run(tmp_path, evaluation__eval_episodes=2)[0].final_eval_mean is not None


def test_threads_are_the_learners_and_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_num_threads()
    try:
        run(tmp_path, threads=3, replay__batch_size=400, learner__hidden=[256, 256], total_steps=44)
        assert torch.get_num_threads() == 2
        assert "threads: learner 2, collector 1" in capsys.readouterr().out
        run(tmp_path, threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_device_is_where_the_learner_computes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, device="cpu")
    assert "device  cpu;" in capsys.readouterr().out
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="cuda"):
            run(tmp_path, device="cuda")


def test_serial_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Started(Exception):
        pass

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        raise Started

    monkeypatch.setattr("unilab.workers.process.Worker.__init__", start)
    run(tmp_path, serial=True, evaluation__eval_episodes=1)
    with pytest.raises(Started):
        run(tmp_path, serial=False)


def test_vec_async_steps_each_env_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sample_envs"))
    monkeypatch.setenv("SAMPLE_ENV_OUT", str(tmp_path))
    pids = []
    for vec in ("sync", "async"):
        (tmp_path / "notes.jsonl").unlink(missing_ok=True)
        run(tmp_path, serial=False, env__env="sample_envs:Seeds-v0", env__vec=vec)
        notes = (tmp_path / "notes.jsonl").read_text().splitlines()
        pids.append(len({line.rpartition('"pid": ')[2] for line in notes}))

    assert pids[1] == pids[0] + 1  # two envs in two processes instead of one


def test_init_from_starts_with_what_another_run_has_learnt(tmp_path: Path, base_digests: Callable[[str], str]) -> None:
    _, teacher = run(tmp_path, seed=1)
    pupil, _ = run(tmp_path, init_from=str(teacher))

    assert pupil.learner_digest != base_digests("sac")
    with pytest.raises(ConfigError, match="networks of algo=sac, this run is of algo=td3"):
        run(tmp_path, init_from=str(teacher), algo="td3")
    with pytest.raises(ConfigError, match="continue with the"):
        run(tmp_path, init_from=str(teacher), learner__hidden=[9])


def test_replay_from_starts_with_the_rows_of_another_run(tmp_path: Path, base_digests: Callable[[str], str]) -> None:
    _, teacher = run(tmp_path, seed=1, env__env_kwargs={"episode_length": 3})
    pupil, folder = run(tmp_path, replay_from=str(teacher), replay__buffer_size=1_000, learner__norm_obs=True)
    without, _ = run(tmp_path, replay__buffer_size=1_000, learner__norm_obs=True)

    assert (pupil.env_steps, pupil.updates) == (without.env_steps, without.updates)
    assert pupil.learner_digest != without.learner_digest
    # The teacher's ring kept 98 of its rows for a continuation; they lie before the pupil's own.
    saved = read_meta(Path(str(pupil.checkpoint)))
    assert saved["replay"]["rows"] == [[-98, 300]]
    resume = open_resume(str(folder), tmp_path)
    longer = dataclasses.replace(saved_config(resume), total_steps=400)
    assert train(longer, resume).env_steps == 400
    with pytest.raises(ConfigError, match=r"of other spaces than this run's env has: obs_dim=3 \(now 4\)"):
        run(tmp_path, replay_from=str(teacher), env__env_kwargs={"obs_dim": 4})


def test_stall_limit_is_how_long_a_quiet_collector_is_awaited(tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match=r"no data from collector-0 .* for 1 s"):
        run(tmp_path, serial=False, env__env_kwargs={"step_ms": 3_000.0}, pacing__stall_limit_s=1.0)


def test_what_goes_wrong_after_a_failure_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("unilab.checkpoint.Checkpoints._save", full)
    with pytest.raises(ValueError, match="toy env raises at step 60"):
        run(tmp_path, name="broken", env__env_kwargs={"raise_at": 60})
    summary = json.loads((tmp_path / "unilab-Toy-v0/sac/broken/summary.json").read_text())

    said = "toy env raises at step 60, as configured"
    assert (summary["status"], summary["reason"], summary["exit_code"]) == ("failed", said, 1)
    assert summary["env_steps"] == 2 * 59
    assert "could not be saved: RuntimeError: the disk is full" in capsys.readouterr().out


def test_a_run_that_cannot_be_built_says_only_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr("unilab.runtime.make_learner", refuse)
    with pytest.raises(RuntimeError, match="no such kernel"):
        run(tmp_path, name="unbuilt")
    summary = json.loads((tmp_path / "unilab-Toy-v0/sac/unbuilt/summary.json").read_text())

    assert (summary["status"], summary["reason"], summary["exit_code"]) == ("failed", "no such kernel", 1)
    assert summary["wall_time_s"] > 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("backend", "said"),
    [("auto", "backend mujoco (native task)"), ("gymnasium", "backend gymnasium (as asked)")],
)
def test_the_run_says_which_backend_steps_its_envs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], backend: str, said: str
) -> None:
    _, folder = run(tmp_path, total_steps=60, env={"env": "InvertedPendulum-v5", "num_envs": 2, "backend": backend})
    meta = json.loads((folder / "meta.json").read_text())

    assert said in capsys.readouterr().out
    assert f"backend {meta['backend']['name']} ({meta['backend']['why']})" == said


@pytest.mark.parametrize("service", ["wandb", "trackio"])
def test_a_tracker_gets_the_scalars_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    logged: list[tuple[int, dict[str, float]]] = []

    class Run:
        def log(self, values: dict[str, float], step: int | None = None) -> None:
            logged.append((int(values.get("env_steps", step)), values))  # type: ignore[arg-type]

        def define_metric(self, *_: Any, **__: Any) -> None: ...

        def finish(self) -> None: ...

    stub = ModuleType(service)
    stub.init = lambda **_: Run()  # type: ignore[attr-defined]
    stub.__spec__ = importlib.machinery.ModuleSpec(service, None)
    monkeypatch.setitem(sys.modules, service, stub)
    run(tmp_path, track=service, log_every=100, evaluation__eval_episodes=1)

    assert [steps for steps, _ in logged] == [100, 200, 300, 300]
    assert "train/critic_loss" in logged[0][1]
    assert "eval/mean_reward" in logged[-1][1]


def test_no_option_is_without_proof() -> None:
    proven = {*LEARNING, *OTHERS_LEARNING, "env.critic_keys", "env.action_bound", "env.vec", "device", "threads"}
    proven |= {"env.backend", "on_nan", "track"}
    proven |= {"learner.symmetry", "learner.privileged_encoder"}  # test_symmetry_runs, test_privileged_runs
    proven |= {"learner.lr_final", "compile"}  # test_algo_options and test_compiled_runs
    proven |= {"log_dir", "name", "log_every", "save_every", "keep", "trace", "serial", "evaluation.eval_episodes"}
    proven |= {"trace_ticks", "trace_cpu", "trace_mb"}
    proven |= {"pacing.stall_limit_s", "init_from", "replay_from"}
    free = ("pacing", "max_unspent_chunks", "max_policy_lag", "lag_action", "publish_interval", "cold_start_debt")
    proven |= {
        f"replay.{name}" for name in ("sampler", "per_alpha", "per_beta", "per_beta_final")
    }  # test_prioritised_runs
    proven |= {"affinity", *(f"pacing.{name}" for name in free)}  # test_many_collectors
    # on_nan in test_skipping; the first two here in test_endings, then test_restarts and test_faults_env.
    proven |= {"evaluation.eval_every", "evaluation.eval_at_start", "evaluation.stop_at_return"}  # test_evaluations
    proven |= {"evaluation.eval_max_steps", "pacing.shutdown_timeout_s", "max_restarts", "pacing.start_limit_s"}

    assert proven == set(leaves(TrainConfig()))


def leaves(config: Any, prefix: str = "") -> Iterator[str]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from leaves(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name
