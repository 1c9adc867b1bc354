"""The env's examination as the doctor sees it: a report, also where the process hangs, dies or cannot be started."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

from unilab.checks.finding import fail
from unilab.config import TrainConfig
from unilab.doctor.child import Children
from unilab.doctor.env_probe import EnvProbeJob, EnvReport, env_probe_main
from unilab.doctor.phases import main_thread, phase_of_dump
from unilab.errors import WaitTimeout, WorkerDied


def env_report(cfg: TrainConfig, children: Children, scratch: Path, deadline_s: float) -> EnvReport:
    """Examine the run's env in a child.

    Args:
        cfg: of the run.
        children: starts it.
        scratch: an empty directory, which the caller removes.
        deadline_s: for everything: start of the process, imports, construction, steps.

    Raises:
        Stopped: interrupted.
    """
    job = EnvProbeJob(cfg.env, cfg.seed, time.monotonic(), deadline_s, scratch / "stack.txt")
    try:
        pickle.dumps(job)
    except Exception as error:
        return _failed(
            f"env_kwargs cannot be sent to another process ({type(error).__name__}: {error})",
            "use values that can be pickled: no lambdas, no local classes, no open files",
        )
    try:
        report: EnvReport = children.ask("env-probe", env_probe_main, job, threads=1, deadline_s=deadline_s)
    except WaitTimeout:
        return _hung(job)
    except WorkerDied as error:
        said, _, detail = str(error).partition("\n")
        return _failed(f"{cfg.env.env}: {said}", "run it once on its own, in a plain Python program", detail)
    except OSError as error:
        return _failed(f"no process can be started ({error})", "see `ulimit -u` and the container's limit of processes")
    return report


def _hung(job: EnvProbeJob) -> EnvReport:
    stack = job.dump.read_text() if job.dump.exists() else ""
    phase = phase_of_dump(stack)
    what = "its process did not start" if phase == "start" else f"its {phase} did not return"
    return _failed(
        f"{job.env.env}: {what} within {job.deadline_s:g} s",
        "mend what it waits for below, or give --deadline SECONDS if it only needs longer",
        main_thread(stack).strip(),
    )


def _failed(saw: str, advice: str, detail: str = "") -> EnvReport:
    return EnvReport([fail("env", saw, advice, detail)])
