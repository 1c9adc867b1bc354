"""What a run leaves, prints and refuses, as its user sees it."""

from __future__ import annotations

import csv
import json
import re
import time
from pathlib import Path

import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from program import SMALL, Program, Start
from unilab.checkpoint import list_checkpoints, load_checkpoint
from unilab.report.measure import measure
from unilab.telemetry.trace_read import read_trace

SHORT = ["--total-steps", "1_500", *SMALL]


def run_dir(program: Program) -> Path:
    return (program.log_dir / "latest").resolve()


def notes(program: Program) -> list[dict[str, object]]:
    return [json.loads(line) for line in (program.log_dir / "notes.jsonl").read_text().splitlines()]


def test_a_run_leaves_its_config_origin_scalars_checkpoint_and_summary(start: Start) -> None:
    program = start("--env", "Pendulum-v1", "--num-envs", "2", "--log-every", "500", *SHORT)

    assert program.end() == 0, program.text
    folder = run_dir(program)
    assert folder.parent == program.log_dir / "Pendulum-v1" / "sac"
    summary = program.summary
    assert summary["status"] == "completed"
    assert summary["env_steps"] == 1_500
    assert summary["updates"] == 1_500 - 150  # the prefill is a tenth of the total
    assert summary["mean_ep_length"] == 200
    assert -2_000 < summary["final_eval_mean"] < 0
    assert summary["final_eval_std"] > 0
    assert {"python", "torch", "numpy"} <= json.loads((folder / "meta.json").read_text())["versions"].keys()
    assert yaml.safe_load((folder / "config.yaml").read_text())["env"]["num_envs"] == 2

    rows = list(csv.DictReader((folder / "progress.csv").open()))
    steps = [int(float(row["time/total_timesteps"])) for row in rows if row["time/total_timesteps"]]
    assert steps == [500, 1_000, 1_500]
    events = EventAccumulator(str(folder))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {
        "rollout/ep_rew_mean",
        "rollout/ep_len_mean",
        "time/fps",
        "train/actor_loss",
        "train/critic_loss",
        "train/ent_coef",
        "eval/mean_reward",
        "sys/collector_rss_mb",
    } <= tags
    # Python and torch take more than 50 MB; the learner has more of both.
    assert 50 < float(rows[-1]["sys/collector_rss_mb"]) < float(rows[-1]["sys/learner_rss_mb"]) < 5_000
    assert [event.step for event in events.Scalars("train/critic_loss")] == [500, 1_000, 1_500]

    state = load_checkpoint(list_checkpoints(folder / "checkpoints")[-1])
    assert (state["env_steps"], state["updates"]) == (1_500, 1_350)
    assert program.left_over() == []


def test_the_first_numbers_come_within_seconds(start: Start) -> None:
    began = time.monotonic()
    program = start("--total-steps", "3000")  # HalfCheetah-v5, as by default
    program.until(lambda: "reward_per_step=" in program.text, "the first numbers", deadline_s=30)

    # 10 s are promised; an idle machine needs five, a loaded one must not fail this.
    assert time.monotonic() - began < 20


def test_the_config_of_a_run_repeats_it_bit_for_bit(start: Start) -> None:
    first = start("--env", "Pendulum-v1", "--seed", "7", "--gamma", "0.9", *SHORT)
    assert first.end() == 0, first.text
    again = start("--config", str(run_dir(first) / "config.yaml"))
    assert again.end() == 0, again.text

    for key in ("learner_digest", "replay_digest", "final_eval_mean"):
        assert again.summary[key] == first.summary[key]


def test_output_in_a_file_is_plain_lines_that_grow(start: Start) -> None:
    program = start("--env", "Pendulum-v1", "--name", "odd [b] [seed3]", *SHORT)

    assert program.end() == 0, program.text
    assert "\x1b" not in program.text
    assert "odd [b] [seed3]\n" in program.text
    assert re.search(r"^phase=prefill env_steps=\d+ of=152 reward_per_step=-?[\d.]+", program.text, re.M)
    assert re.search(r"^env_steps=1504 done=100.0% .*fps=[1-9]", program.text, re.M)


@pytest.mark.alone  # it looks at the overlap
def test_spans_of_both_processes_lie_on_one_clock_in_strict_json(start: Start) -> None:
    program = start("--env", "Pendulum-v1", "--num-envs", "4", "--trace", *SHORT)

    assert program.end() == 0, program.text

    def refuse(word: str) -> None:
        raise ValueError(word)

    trace = json.loads(Path(str(program.summary["trace"])).read_text(), parse_constant=refuse)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(names.values()) == ["collector-0", "evaluator-0", "learner"]
    spans = [(names[e["pid"]], e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X"]
    assert {"tick", "update", "publish", "wait_batch", "copy"} <= {s[1] for s in spans if s[0] == "learner"}
    assert {"act", "env_step", "append", "pack", "fetch", "wait_grant"} <= {
        s[1] for s in spans if s[0] == "collector-0"
    }
    wall_us = program.summary["wall_time_s"] * 1e6
    # The evaluator waits for more until it is told to stop, after the wall time was taken.
    assert all(0 <= begin <= end <= wall_us for _, name, begin, end in spans if name != "wait_version")
    assert {"wait_version", "fetch", "make_envs", "evaluate", "act", "env_step"} == {
        s[1] for s in spans if s[0] == "evaluator-0"
    }
    # Arrows lead from each packed batch to its updates and from each version to whoever fetched it.
    ends = {(e["name"], e["bind_id"]) for e in events if "bind_id" in e and names[e["pid"]] != "evaluator-0"}
    batches = {number for name, number in ends if name == "pack"}
    assert len(batches) == program.summary["ticks"]
    assert batches == {number for name, number in ends if name == "copy"}
    assert batches == {number for name, number in ends if name == "update"}
    fetched, published = ({n for name, n in ends if name == kind} for kind in ("fetch", "publish"))
    assert len(fetched) == program.summary["ticks"] - 1  # chunks 1 and 2 both act with version 0
    assert len(published) == program.summary["ticks"] + 1
    assert fetched < published
    # The summary at the end of the console says what the trace does.
    report = measure(read_trace(Path(str(program.summary["trace"]))))
    assert [sum(split.values()) for split in report.timing.split.values()] == pytest.approx([1, 1], abs=0.01)
    said = [line.split() for line in program.text.splitlines() if line.startswith("timing ")]
    assert float(said[0][4]) == pytest.approx(1e3 * report.timing.ticks.mean, rel=0.05)
    # Envs step while the learner updates: the two processes overlap.
    updates = [s[2:] for s in spans if s[1] == "update"][-1_000:]
    steps = [s[2:] for s in spans if s[1] == "env_step" and s[2] > updates[0][0]]
    hidden = sum(max(0, min(end, e) - max(begin, b)) for begin, end in steps for b, e in updates)
    # Far more on an idle machine; bench_overlap measures it.
    assert hidden > 0.1 * sum(end - begin for begin, end in steps)


def test_the_collector_has_its_own_threads_and_none_of_our_descriptors_leak(start: Start) -> None:
    program = start("--env", "sample_envs:Asks-v0", *SHORT)

    assert program.end() == 0, program.text
    for seen in notes(program):  # collector and evaluator
        assert seen["child"]
        assert seen["start"] in (None, "spawn")
        assert (seen["threads"], seen["omp"], seen["cuda"]) == (1, "1", False)
        assert seen["inheritable"] == []


def test_each_env_gets_a_seed_of_its_own_once_and_runs_differ(start: Start) -> None:
    runs = [
        start(
            "--env",
            "sample_envs:Seeds-v0",
            "--num-envs",
            "4",
            "--seed",
            seed,
            *SHORT,
            "--eval-episodes",
            "0",
        )
        for seed in ("7", "7", "8")
    ]
    seeds = []
    for program in runs:
        assert program.end() == 0, program.text
        by_process: dict[object, list[object]] = {}
        for note in notes(program):
            by_process.setdefault(note["pid"], []).append(note["seed"])
        training = max(by_process.values(), key=len)  # the probe resets once
        assert None not in training[:4]
        assert set(training[4:]) == {None}
        seeds.append(training[:4])

    assert seeds[0] == seeds[1]
    assert len({*seeds[0], *seeds[2]}) == 8


def test_another_unilab_in_the_current_folder_is_left_alone(start: Start) -> None:
    plant = "mkdir unilab; echo 'raise RuntimeError(1)' > unilab/__init__.py"
    program = start("--env", "unilab/Toy-v0", *SHORT, shell=f'{plant}; exec "$@"')

    assert program.end() == 0, program.text


def test_two_runs_in_the_same_second_do_not_meet(start: Start, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    both = [start("--env", "Pendulum-v1", *SHORT, "--log-dir", str(shared)) for _ in range(2)]

    assert [program.end() for program in both] == [0, 0]
    folders = list(shared.glob("Pendulum-v1/sac/*"))
    assert len(folders) == 2
    for folder in folders:
        assert json.loads((folder / "summary.json").read_text())["status"] == "completed"
        assert len(list(folder.glob("events.out.tfevents*"))) == 1
        assert len(list_checkpoints(folder / "checkpoints")) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--algo", "sca"], "did you mean 'sac'"),
        (["--num-env", "3"], "did you mean '--num-envs'"),
        (["--env", "Pendulm-v1"], "Pendulum-v1"),
        (["--env", "CartPole-v1"], "Discrete"),
        (["--env", "no_such_module:Foo-v0"], "no_such_module"),
        (["--env", "Pendulum-v1", "--total-steps", "many"], "many"),
        (["--env", "Pendulum-v1", "--total-steps", "100", "--learning-starts", "200"], "learning_starts"),
        (["--env", "Pendulum-v1", "--buffer-size", "1e12"], "largest buffer_size that fits"),
        (["--env", "Pendulum-v1", "--gamma", "1.5"], "gamma=1.5"),
        (["--env", "Pendulum-v1", "--algo", "td3", "--ent-coef", "0.2"], "no effect"),
        (["--env", "Pendulum-v1", "--device", "cuda:7"], "cuda:7"),
        (["--preset", "sb4"], "sb3"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_what_cannot_work_is_refused_before_a_process_starts(start: Start, words: list[str], said: str) -> None:
    program = start(*words)
    seen: set[int] = set()
    while program.process.poll() is None:
        seen |= set(program.collectors())

    assert program.end(30) == 2, program.text
    assert said in program.text
    assert "Traceback" not in program.text
    assert not seen
    assert not (program.log_dir / "latest").exists()
