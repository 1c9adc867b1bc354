"""The env contract, examined in a process of its own: an env may hang, crash or leave things behind there."""

from __future__ import annotations

import faulthandler
import importlib
import os
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import gymnasium

import unilab
from unilab.checks.finding import Finding, fail, ok
from unilab.doctor.leftovers import leftover_finding
from unilab.doctor.phases import phase_of_error
from unilab.doctor.raw_env import raw_findings
from unilab.doctor.walk import walk
from unilab.doctor.walk_findings import walk_findings
from unilab.envs.base import closing_env
from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.errors import NonFinite, UnilabError
from unilab.spec import EnvSpec
from unilab.workers import Link

_WALK_S, _RAW_S = 5.0, 3.0
"""Longest time that slow steps may take; far below the deadline, so that a slow env is not taken for a hanging one."""


@dataclass(frozen=True, slots=True)
class EnvProbeJob:
    """What the process needs; picklable."""

    env: EnvConfig
    seed: int
    started_s: float  # time.monotonic() when it was asked for
    deadline_s: float  # after that it is killed
    dump: Path  # where its stack goes a moment before


@dataclass(frozen=True, slots=True)
class EnvReport:
    """What was found; ``spec`` is None where the env cannot be made."""

    findings: list[Finding]
    spec: EnvSpec | None = None
    steps_per_s: float = 0.0  # env steps in one process


def env_probe_main(link: Link, job: EnvProbeJob) -> None:
    """Entry of the process."""
    spawned_s = time.monotonic() - job.started_s
    os.dup2(2, 1)  # what an env prints must not stand among the findings
    with open(job.dump, "w") as file:
        # Its own thread, without Python's lock: it also speaks for an env that hangs in C.
        faulthandler.dump_traceback_later(max(0.1, job.deadline_s - spawned_s - 0.5), file=file)
        report = examine_env(job.env, job.seed, spawned_s)
        faulthandler.cancel_dump_traceback_later()
    link.send("result", report)


def examine_env(cfg: EnvConfig, seed: int, spawned_s: float = 0.0) -> EnvReport:
    """Make the env as a run would, walk it, close it; what goes wrong is a finding."""
    findings: list[Finding] = []
    spec, steps_per_s = None, 0.0
    try:
        began = time.perf_counter()
        spec = probe(cfg)
        made_s = time.perf_counter() - began
        findings.append(_made(spec, spawned_s, made_s))
        steps_per_s = _examine_steps(cfg, seed, spec, findings)
    except (Exception, SystemExit) as error:
        findings.append(_raised(error))
    left_over = leftover_finding()
    if spec is not None or left_over.level != "ok":
        findings.append(left_over)
    return EnvReport(findings, spec, steps_per_s)


def _examine_steps(cfg: EnvConfig, seed: int, spec: EnvSpec, findings: list[Finding]) -> float:
    two = replace(cfg, num_envs=2, vec="sync")
    with ExitStack() as stack:
        env, twin = (stack.enter_context(closing_env(make_env(two, seed=seed, spec=spec))) for _ in range(2))
        seen = walk(env, twin, _WALK_S)
        findings += walk_findings(seen, spec)
        for raw in list(getattr(env, "envs", ()))[:1]:  # only the gymnasium backend has such
            findings += raw_findings(raw, cfg, spec, _RAW_S)
    return seen.steps_per_s


def _made(spec: EnvSpec, spawned_s: float, made_s: float) -> Finding:
    critic = f", critic [{spec.critic_dim}]" if spec.critic_dim else ""
    low, high = min(spec.action_low), max(spec.action_high)
    return ok(
        "env",
        f"{spec.env_id}: obs [{spec.obs_dim}]{critic}, action [{spec.action_dim}] in [{low:g}, {high:g}]; spawned and "
        f"imported in {spawned_s:.1f} s, made and stepped once in {made_s:.2f} s",
    )


def _raised(error: BaseException) -> Finding:
    notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    cause = error.__cause__ if isinstance(error, UnilabError) else error
    detail = "" if cause is None or not _in_env(cause) else "".join(traceback.format_exception(cause)).rstrip()
    advice = "mend the env; its traceback:" if detail else "docs/envs.md says what an env must offer"
    if isinstance(error, NonFinite):
        advice = "find where it arises in the env: rows with it can not be learnt from"
    if isinstance(error, UnilabError):
        return fail("env", f"{error}{notes}", advice, detail)
    said = f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return fail("env", f"its {phase_of_error(error)} raised {said}{notes}", advice, detail)


def _in_env(error: BaseException) -> bool:
    """Whether the stack reaches code that is neither ours nor gymnasium's: an unknown id needs no traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    known = tuple(str(Path(str(module.__file__)).parent) for module in (unilab, gymnasium, importlib))
    return any(not frame.filename.startswith((*known, "<")) for frame in frames)
