"""Scalars to an experiment tracker as well: Weights & Biases, or trackio, which keeps them on this machine.

Neither is a dependency, and nothing goes over the network unless it is asked for. A tracker that fails loses scalars,
never the run; TensorBoard and csv have them all.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from unilab.errors import ConfigError

Service = Literal["none", "wandb", "trackio"]

PROJECT = "unilab"


def check_service(service: Service) -> None:
    """Refuse a tracker that is not installed.

    Raises:
        ConfigError: with the command that installs it.
    """
    if service != "none" and importlib.util.find_spec(service) is None:
        raise ConfigError(f"track={service} needs the package: pip install 'unilab-offpolicy[{service}]'")


class Tracker:
    """``Writer`` that logs to a tracker.

    Args:
        service: which one; installed.
        run_dir: names the run there; a run that goes on is the same run.
        config: nested plain values.
        note: takes a message when the tracker fails.
    """

    def __init__(
        self,
        service: Literal["wandb", "trackio"],
        run_dir: Path,
        config: Mapping[str, Any],
        note: Callable[[str], None],
    ) -> None:
        self._service = service
        self._note = note
        self._run: Any = None
        self.lost: str | None = None
        """Why scalars are missing there, in a sentence; None while they are not."""
        self._trying(lambda: self._open(run_dir, config))

    def write(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Log one step's scalars; those of evaluations may be of an earlier step than the last."""
        if self._run is not None:
            finite = {name: value for name, value in scalars.items() if math.isfinite(value)}
            self._trying(lambda: self._log(env_steps, finite))

    def close(self) -> None:
        """Send what is left; idempotent."""
        run, self._run = self._run, None
        if run is not None:
            self._trying(run.finish)

    def _open(self, run_dir: Path, config: Mapping[str, Any]) -> None:
        module = importlib.import_module(self._service)
        names = {"project": PROJECT, "name": run_dir.name, "config": dict(config), "resume": "allow"}
        if self._service == "wandb":
            # Its own step counter refuses to go back: the x axis is a value of its own.
            run_id = hashlib.sha256(str(run_dir.resolve()).encode()).hexdigest()[:16]
            self._run = module.init(dir=str(run_dir), id=run_id, **names)
            self._run.define_metric("env_steps")
            self._run.define_metric("*", step_metric="env_steps")
        else:
            self._run = module.init(embed=False, **names)

    def _log(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        if self._service == "wandb":
            self._run.log({"env_steps": env_steps, **scalars})
        else:
            self._run.log(dict(scalars), step=env_steps)

    def _trying(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever a client of a service may raise
            self._run = None
            said = next(iter(str(error).splitlines()), "")
            self.lost = f"{self._service} failed: {type(error).__name__}: {said}"
            self._note(f"{self.lost}; training goes on")
