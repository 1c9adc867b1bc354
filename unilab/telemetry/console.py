"""Plain lines for people, logs and grep: whole, uncut, without markup.

Text is printed as it is: brackets are not markup, a long line stays one line. A stream that is gone (a closed
pipe, a hung-up terminal) silences the console, never the run.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b")


CONSOLE_NAMES = {
    "rollout/ep_rew_mean": "ep_rew_mean",
    "rollout/ep_len_mean": "ep_len_mean",
    "rollout/success_rate": "success_rate",
    "rollout/reward_per_step": "reward_per_step",
    "time/fps": "fps",
    "perf/updates_per_s": "updates/s",
    "train/critic_loss": "critic_loss",
    "train/actor_loss": "actor_loss",
    "train/ent_coef": "ent_coef",
    "perf/learner_wait_batch_share": "learner_wait",
    "lag/policy": "policy_lag",
}
"""What a status line shows, in this order: scalar name to short name."""

EVALUATION_NAMES = {
    "eval/mean_reward": "eval_reward",
    "eval/std_reward": "eval_std",
    "eval/mean_ep_length": "eval_len_mean",
    "eval/success_rate": "eval_success",
}
"""The same for the line of an evaluation."""


class Console:
    """Lines on one stream."""

    interval_s = 10.0
    """Seconds between two status lines."""

    def __init__(self, stream: TextIO | None) -> None:
        """Use a stream.

        Args:
            stream: usually ``sys.stdout``, which is None where a process was started without one.
        """
        self._stream = stream
        self.plain = stream is None or not _is_terminal(stream) or bool(os.environ.get("NO_COLOR"))
        """Whether escape codes are kept out: not a terminal, or NO_COLOR is set and not empty."""

    def header(self, rows: list[tuple[str, str]]) -> None:
        """Print names and values in two columns."""
        width = max((len(name) for name, _ in rows), default=0)
        self._write("".join(f"{name:<{width}}  {one_line(value)}\n" for name, value in rows))

    def line(self, **values: float | str) -> None:
        """Print one line of ``key=value``; numbers as in ``number``, text as it is."""
        cells = (f"{key}={one_line(x) if isinstance(x, str) else number(x)}" for key, x in values.items())
        self._write(" ".join(cells) + "\n")

    def status(self, env_steps: int, total_steps: int, scalars: Mapping[str, float]) -> None:
        """Print how the run stands.

        Args:
            env_steps: that the scalars are of.
            total_steps: of the whole run; 0: unknown.
            scalars: by name; a line shows the most important ones.
        """
        done = {"done": f"{100 * env_steps / total_steps:.1f}%"} if total_steps else {}
        shown = {short: scalars[name] for name, short in CONSOLE_NAMES.items() if name in scalars}
        self.line(env_steps=env_steps, **done, **shown)

    def evaluation(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Print how an evaluation came out.

        Args:
            env_steps: of the weights that were evaluated; the run may be further.
            scalars: by name.
        """
        shown = {short: scalars[name] for name, short in EVALUATION_NAMES.items() if name in scalars}
        self.line(evaluated_env_steps=env_steps, **shown)

    def worker_log(self, folder: Path) -> Path | None:
        """The file that what workers print goes to instead of this stream; None: it comes here as it is.

        Args:
            folder: of the run.
        """
        return None

    def close(self) -> None:
        """Whatever moves stops."""

    def note(self, text: str) -> None:
        """Print a message; several lines stay together."""
        self._write(text.rstrip("\n") + "\n")

    def error(self, text: str) -> None:
        """Print a message that starts with ``error:``; several lines (a traceback) stay together."""
        self._write("error: " + text.rstrip("\n") + "\n")

    def _write(self, text: str) -> None:
        """One write call and a flush, so that the lines of several processes do not tear."""
        if self._stream is None:
            return
        if self.plain:
            text = without_escapes(text)
        try:
            _write_encodable(self._stream, text)
            self._stream.flush()
        except BlockingIOError:  # a reader that does not keep up loses this line only
            pass
        except (OSError, ValueError):
            self._give_up(self._stream)

    def _give_up(self, stream: TextIO) -> None:
        self._stream = None
        # What the dead stream still buffers would fail again when Python exits, with exit code 120.
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(null, stream.fileno())
            finally:
                os.close(null)


def number(value: float) -> str:
    """Integers and large numbers with all digits, no separators; others with 4: ``1200000``, ``0.01235``."""
    if isinstance(value, int):
        return str(int(value))
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"


def one_line(text: str) -> str:
    """The text without line ends."""
    return text.replace("\n", "\\n")


def without_escapes(text: str) -> str:
    """The text without what would colour it or move the cursor."""
    return _ESCAPES.sub("", text)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed already
        return False


def _write_encodable(stream: TextIO, text: str) -> None:
    """Write; what the stream's encoding lacks becomes backslash escapes (file names may hold any bytes)."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))
