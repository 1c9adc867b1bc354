"""From what a user types, a run and one of its checkpoints, to the directory that is meant."""

from __future__ import annotations

from pathlib import Path

from unilab.checkpoint import checkpoint_name, find_checkpoint, list_checkpoints, steps_of
from unilab.config import parse_count
from unilab.errors import ConfigError

BEST = "best"
"""Directory of a run with the checkpoint that its evaluations liked most."""


def which_checkpoint(run: str | None, checkpoint: str, log_dir: Path) -> tuple[Path, list[str]]:
    """The checkpoint that is meant.

    Args:
        run: a run directory, or "latest"; None: ``checkpoint`` is a path.
        checkpoint: "last", "best", a number of env steps, or a path.
        log_dir: of which "latest" is the newest run.

    Returns:
        The directory, and what was passed over because it is spoilt, in words.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    if run is None:
        return find_checkpoint(Path(checkpoint), replay=False).path, []
    folder = which_run(run, log_dir)
    if checkpoint == "last":
        found = find_checkpoint(folder, replay=False)
        return found.path, [f"{path} was passed over: {reason}" for path, reason in found.skipped]
    if checkpoint == BEST:
        if not (folder / BEST).is_dir():
            raise ConfigError(
                f"--checkpoint best: {folder} has none, which evaluations while training leave; use --checkpoint last"
            )
        return find_checkpoint(folder / BEST, replay=False).path, []
    try:
        path = folder / "checkpoints" / checkpoint_name(parse_count(checkpoint))
    except ValueError:
        if not Path(checkpoint).exists():
            raise ConfigError(
                f"--checkpoint {checkpoint} must be last, best, a number of env steps, or the path of a checkpoint"
            ) from None
        raise ConfigError(f"--checkpoint {checkpoint} is a path; leave --run out") from None
    if not path.exists():
        there = ", ".join(str(steps_of(p)) for p in list_checkpoints(path.parent)) or "none"
        raise ConfigError(f"--checkpoint {checkpoint}: {folder} holds none of that many env steps; it has {there}")
    return find_checkpoint(path, replay=False).path, []


def which_run(run: str, log_dir: Path) -> Path:
    """The directory of a run, without links.

    Args:
        run: a directory, or "latest".
        log_dir: of which "latest" is the newest run.

    Raises:
        ConfigError: there is none.
    """
    folder = log_dir / "latest" if run == "latest" else Path(run)
    if not folder.exists():
        hint = f"; there is no run in --log-dir {log_dir}" if run == "latest" else ""
        raise ConfigError(f"--run {run}: {folder} does not exist{hint}")
    return folder.resolve()
