"""Runs whose updates are compiled keep the promises of those that are not: one seed, one result."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import time
from pathlib import Path

import pytest
import torch

from program import Program
from test_lockstep import config, digests
from test_resume import go_on, run_of
from unilab.algos.compiled import no_compiler
from unilab.config import TrainConfig
from unilab.train import train


def first_tick_with(settings: TrainConfig, *, updates: int) -> int:
    schedule = settings.schedule()
    return next(tick for tick in range(1, 1000) if schedule.updates_until(tick) >= updates)


@pytest.mark.skipif(no_compiler(torch.device("cpu")) is not None, reason="there is no C++ compiler")
def test_compiled_updates_give_the_same_bits_in_one_process_in_two_and_in_a_run_that_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = config(tmp_path, compile="on", precision="bf16", total_steps=400)
    settings = dataclasses.replace(settings, learner=dataclasses.replace(settings.learner, policy_delay=2))

    lockstep = train(settings)
    said = capsys.readouterr().out
    assert "update  compiled, bf16 products" in said
    # The last lines are about ticks after the one with the second graph, which is that of update 2.
    # Two more are left out: the collector tells its wait for that tick with the chunk after next.
    assert f"timing       {lockstep.ticks - first_tick_with(settings, updates=2) - 2:,} ticks of" in said
    assert "not compiled" not in said
    splits = [line for line in said.splitlines() if line.startswith(("learner  ", "collector-0  "))]
    shares = [float(share) for line in splits for share in re.findall(r"(-?[0-9.]+) %", line)]
    assert len(splits) == 2
    assert all(-1 <= share <= 101 for share in shares), splits
    serial = train(dataclasses.replace(settings, serial=True))
    half = train(dataclasses.replace(settings, serial=True, total_steps=250))
    gone_on = go_on(run_of(half), total_steps=400)
    eager = train(dataclasses.replace(settings, serial=True, compile="off"))

    assert digests(lockstep) == digests(serial) == digests(gone_on)
    assert digests(eager)[0] != digests(serial)[0]


@pytest.mark.skipif(no_compiler(torch.device("cpu")) is not None, reason="there is no C++ compiler")
def test_batch_normalised_nets_of_the_default_width_are_compiled_in_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their counters of batches are published beside the weights; once that kept the whole update from compiling."""
    settings = config(tmp_path, algo="crossq", compile="on", serial=True, total_steps=200)
    wide = dataclasses.replace(settings.learner, hidden=(256, 256), policy_delay=1)

    train(dataclasses.replace(settings, learner=wide))

    said = capsys.readouterr().out
    assert "update  compiled, " in said
    assert "compiling the update" in said
    assert "not compiled" not in said


def test_a_run_that_goes_on_computes_as_it_began_whatever_its_length_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = train(config(tmp_path, serial=True, total_steps=200))
    monkeypatch.setattr("unilab.computing._PAYS_FROM_GFLOP", 0.0)

    longer = go_on(run_of(short), total_steps=300)

    assert capsys.readouterr().out.count("eager, fp32 products") == 2
    assert longer.updates == 210


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.skipif(no_compiler(torch.device("cpu")) is not None, reason="there is no C++ compiler")
def test_a_signal_while_it_compiles_ends_the_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))  # an empty one: it takes its time
    program = Program(tmp_path, ["--env", "unilab/Toy-v0", "--compile", "on", "-n", "5000", "--threads", "1"])
    program.until(lambda: "compiling the update" in program.text, "compiling")
    program.until(lambda: any("g++" in name or "cc1plus" in name for name in program.descendants().values()), "g++")

    os.kill(program.process.pid, number)
    began = time.monotonic()

    assert program.end(30) == 128 + number, program.text
    assert time.monotonic() - began < 5.0
    assert "Traceback" not in program.text
    assert program.summary["status"] == "interrupted"
    assert program.left_over() == []
