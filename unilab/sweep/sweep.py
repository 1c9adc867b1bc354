"""Trains the seeds of a sweep, one after the other, and sums them up."""

from __future__ import annotations

import signal
import sys

from unilab.draft import writing
from unilab.interrupt import Interrupt
from unilab.rundir import write_json
from unilab.sweep.child import Training
from unilab.sweep.options import SweepOptions
from unilab.sweep.result import as_text, done, read_summary, sum_up

_REFUSED, _SIGNAL = 2, 128  # exit codes; those above are of signals


def sweep(options: SweepOptions) -> int:
    """Train what is not done yet; a seed that fails leaves the others be, a refusal or an interrupt ends the sweep.

    Returns:
        0; 1 where a seed failed; 2 where training was refused; 130/143 when interrupted.

    Raises:
        ConfigError: a directory is taken; nothing was started.
        UnilabError: the result cannot be written.
    """
    scores = {seed: score for seed in options.seeds if (score := done(options, seed)) is not None}
    failed = _train_missing(options, scores)
    if not scores:
        _say("no seed was trained to its end")
        return failed or 1
    result = sum_up(options, scores)
    path = options.folder / f"{options.name}.json"
    with writing(path):
        write_json(path, result)
    _say(as_text(result))
    missing = ", ".join(map(str, result["missing"]))
    _say(f"{path}{f'; not in it: seed {missing}' if missing else ''}")
    _say(f"curves: unilab plot {' '.join(result['runs'])}")
    return failed


def _train_missing(options: SweepOptions, scores: dict[int, float]) -> int:
    """Fill ``scores``; returns the exit code."""
    failed = 0
    running: list[Training] = []

    def pass_on() -> None:
        for training in running:
            training.signal(interrupt.signal or signal.SIGTERM)

    with Interrupt(on_first=pass_on, on_second=pass_on) as interrupt:
        for number, seed in enumerate(options.seeds, 1):
            if seed in scores:
                _say(f"sweep {options.name}: seed {seed} ({number} of {len(options.seeds)}) is done already")
                continue
            if interrupt:
                break
            _say(f"sweep {options.name}: seed {seed} ({number} of {len(options.seeds)})")
            running.append(Training([*options.words, "--seed", str(seed), "--name", options.run_name(seed)]))
            if interrupt:  # it came between the look at it and the start
                pass_on()
            code = running[0].wait()
            running.clear()
            if code == _REFUSED or code > _SIGNAL:
                return code
            if code:
                failed = 1
                continue
            score = read_summary(options.folder / options.run_name(seed)).get("final_eval_mean")
            if isinstance(score, int | float):
                scores[seed] = float(score)
            else:  # NaN and infinities are words in the file
                _say(f"seed {seed}: its final evaluation is {score}, which cannot be summed up")
                failed = 1
    return interrupt.exit_code or failed


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
