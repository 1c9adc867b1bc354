"""From a checkpoint to a bundle: everything is made and compared first, then written aside and given its name."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mujoco

from unilab.draft import draft, writing
from unilab.errors import ConfigError
from unilab.export.deployed import Deployed
from unilab.export.metadata import describe
from unilab.export.onnx_file import require_onnx, session, to_onnx
from unilab.export.options import ExportOptions
from unilab.export.parity import OBSERVATIONS, check_parity, input_widths, observations
from unilab.export.robot import Robot, robot_of
from unilab.restore import Restored, restore_policy
from unilab.rundir import strict_json
from unilab.which_checkpoint import which_checkpoint

POLICY, METADATA, EXAMPLE = "policy.onnx", "metadata.json", "run_policy.py"
_HERE = Path(__file__).parent


def export(options: ExportOptions) -> int:
    """Write what the options ask for, and say so.

    Raises:
        UsageError: something cannot be found or made, or a package is missing; one sentence.
        UnilabError: the exported policy differs from the run's, or the bundle cannot be written; one sentence.
    """
    require_onnx()
    _check_place(options.out)
    checkpoint, notes = which_checkpoint(options.run, options.checkpoint, options.log_dir)
    for note in notes:
        sys.stderr.write(f"unilab: {note}\n")
    restored = restore_policy(checkpoint)
    files, worst = make_bundle(restored)
    write_bundle(options.out, files)
    env = restored.spec.env
    inputs = " and ".join(f"{name} [{width}]" for name, width in input_widths(restored).items())
    sys.stdout.write(
        f"{options.out}: policy of {checkpoint}, {inputs} to action [{env.action_dim}] in env units; "
        f"differs by {worst:.2g} of half of an action's range from the run's own on {OBSERVATIONS} observations\n"
    )
    return 0


def make_bundle(restored: Restored) -> tuple[dict[str, bytes], float]:
    """The files by name, and how much the exported policy differs.

    Raises:
        UnilabError: by more than it may.
    """
    env = restored.spec.env
    robot, rate_hz = robot_of(restored.cfg.env, env)
    inputs = input_widths(restored)
    simulates = robot and robot.simulates and len(inputs) == 1  # plain MuJoCo gives no privileged vector
    files = _model_file(robot) if robot and simulates else {}
    example = _HERE / ("run_policy.py" if files else "run_once.py")
    if robot and robot.deployment and files:
        example = robot.deployment.script
    about = strict_json(describe(restored, robot, rate_hz, next(iter(files), None)))
    content = to_onnx(Deployed(restored.policy.module, env), inputs, about)
    worst = check_parity(session(content), restored, observations(restored))
    text = json.dumps(about, indent=2, allow_nan=False) + "\n"
    files |= {POLICY: content, METADATA: text.encode(), EXAMPLE: example.read_bytes()}
    return files, worst


def write_bundle(out: Path, files: dict[str, bytes]) -> None:
    """Write the files as a folder, or as one zip file where the name ends so; an older one stays until then.

    Raises:
        UnilabError: it cannot be written.
    """
    if out.suffix.lower() == ".zip":
        with draft(out) as aside, writing(out), zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(f"{out.stem}/{name}", content)
        return
    with writing(out), _folder_aside(out) as aside:
        for name, content in files.items():
            (aside / name).write_bytes(content)


def _model_file(robot: Robot) -> dict[str, bytes]:
    """The model for the example: its XML where that is all there is to it, else MuJoCo's own binary format."""
    if robot.xml is not None:
        return {"model.xml": robot.xml.read_bytes()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mjb"
        mujoco.mj_saveModel(robot.model, str(path), None)
        return {path.name: path.read_bytes()}


@contextmanager
def _folder_aside(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` that takes its place when the block ends, and is removed if that fails."""
    aside, old = (out.with_name(f".{out.name}.{os.getpid()}{end}") for end in ("", ".old"))
    try:
        aside.mkdir()
        yield aside
        if out.exists():
            os.replace(out, old)
        os.replace(aside, out)
    finally:
        if old.exists() and not out.exists():
            os.replace(old, out)
        for left in (aside, old):
            shutil.rmtree(left, ignore_errors=True)


def _check_place(out: Path) -> None:
    """Refuse to write over what is no bundle.

    Raises:
        ConfigError: names the path.
    """
    out = Path(os.path.abspath(out))
    if not out.parent.is_dir():
        raise ConfigError(f"--out {out}: there is no directory {out.parent}")
    if out.suffix.lower() == ".zip":
        if out.is_dir():
            raise ConfigError(f"--out {out} is a directory; name a file in it")
    elif out.exists() and not (out / METADATA).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} is there and is no bundle; give another name")
