"""A live panel on a terminal: how far, how well, how fast, and what everyone waits for.

It has what the plain lines have, and more. Messages, and what workers print, appear above it. It is drawn from the main
loop, about once a second: no thread competes with the updates.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.box import ROUNDED
from rich.console import Console as Terminal
from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from unilab.telemetry.console import Console, number, one_line, without_escapes

_MOST_LINES = 10
"""Lines of workers shown between two drawings; the others are in their file."""

_COLUMNS: Mapping[str, Sequence[tuple[str, str]]] = {
    "return": (
        ("rollout/ep_rew_mean", "training"),
        ("eval/mean_reward", "evaluation"),
        ("best", "best evaluation"),
        ("rollout/ep_len_mean", "episode length"),
        ("rollout/success_rate", "success rate"),
    ),
    "learning": (
        ("train/critic_loss", "critic loss"),
        ("train/actor_loss", "actor loss"),
        ("train/ent_coef", "ent coef"),
        ("train/n_updates", "updates"),
    ),
    "speed": (
        ("time/fps", "env steps/s"),
        ("perf/updates_per_s", "updates/s"),
        ("utd", "updates/step"),
        ("lag/policy", "policy lag"),
        ("lag/row_age", "row age"),
        ("sys/learner_rss_mb", "learner MB"),
        ("sys/collector_rss_mb", "collector MB"),
    ),
}
"""Scalars by column, with the words that stand for them; one that is not there leaves its line out."""

_ROLES = {
    "learner": ("update", "wait_batch", "publish", "save", "other"),
    "collector": ("env_step", "act", "append", "pack", "fetch", "wait_grant", "other"),
}
_WAITS = ("wait_batch", "wait_grant")


def open_console(stream: TextIO | None, title: str) -> Console:
    """A panel on a terminal that can move its cursor, plain lines elsewhere, and with NO_COLOR or TERM=dumb.

    Args:
        stream: usually ``sys.stdout``.
        title: of a panel.
    """
    console = Console(stream)
    if stream is None or console.plain or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return console
    return Panel(stream, title)


class Panel(Console):
    """``Console`` for a terminal that can move its cursor.

    Args:
        stream: the terminal.
        title: of the panel.
    """

    interval_s = 1.0

    def __init__(self, stream: TextIO, title: str = "unilab") -> None:
        super().__init__(stream)
        self._title = title
        self._terminal = Terminal(file=stream, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None
        self._began_s = time.monotonic()
        self._start_steps: int | None = None
        self._env_steps = self._total_steps = 0
        self._scalars: dict[str, float] = {}
        self._phase = ""
        self._log: Path | None = None
        self._log_read = 0

    def worker_log(self, folder: Path) -> Path:
        """See ``Console``; what is in the file already was shown by an earlier start."""
        self._log = folder / "workers.log"
        self._log_read = self._log.stat().st_size if self._log.exists() else 0
        return self._log

    def status(self, env_steps: int, total_steps: int, scalars: Mapping[str, float]) -> None:
        """Draw anew, with these scalars in place of those of the same names."""
        if self._start_steps is None:
            self._start_steps, self._began_s = env_steps, time.monotonic()
        self._env_steps, self._total_steps = env_steps, total_steps
        self._scalars |= scalars
        if scalars.get("time/fps"):
            self._scalars["utd"] = scalars.get("perf/updates_per_s", 0.0) / scalars["time/fps"]
        self._phase = ""
        self._draw()

    def evaluation(self, env_steps: int, scalars: Mapping[str, float]) -> None:
        """Draw anew, with an evaluation's scalars."""
        mean = scalars["eval/mean_reward"]
        self._scalars |= scalars
        self._scalars["best"] = max(mean, self._scalars.get("best", mean))
        self._draw()

    def line(self, **values: float | str) -> None:
        """Show a line of ``key=value`` in the panel, in place of the one before."""
        cells = (f"{key}={one_line(x) if isinstance(x, str) else number(x)}" for key, x in values.items())
        self._phase = " ".join(cells)
        self._draw()

    def close(self) -> None:
        """Draw once more and leave it there; what follows is printed below."""
        self._draw(start=False)
        live, self._live = self._live, None
        if live:
            live.stop()

    def _write(self, text: str) -> None:
        if self._live is None:
            super()._write(text)
            return
        encoding = self._terminal.encoding
        shown = without_escapes(text.rstrip("\n")).encode(encoding, "backslashreplace").decode(encoding)
        self._terminal.print(Text(shown), soft_wrap=True)

    def _draw(self, *, start: bool = True) -> None:
        if self._live is None:
            if not start:
                return
            self._live = Live(console=self._terminal, auto_refresh=False, vertical_overflow="crop")
            self._live.start()
            self._terminal.show_cursor(True)  # a run that is killed must not take the cursor along
        try:
            self._show_workers()
            self._live.update(self.render(), refresh=True)
        except OSError:  # a terminal that is gone, or a log: nobody looks
            pass

    def _show_workers(self) -> None:
        if self._log is None or not self._log.exists():
            return
        with open(self._log, "rb") as file:
            file.seek(self._log_read)
            fresh = file.read(1_000_000)
            fresh = fresh[: fresh.rfind(b"\n") + 1]
            self._log_read += len(fresh)
            if len(fresh) > 900_000:  # more than anyone reads
                self._log_read = file.seek(0, 2)
        lines = fresh.decode(errors="backslashreplace").splitlines()
        for line in lines[-_MOST_LINES:]:
            self._write(line)
        if len(lines) > _MOST_LINES:
            self._write(f"({len(lines) - _MOST_LINES} more lines of workers are in {self._log})")

    # ------------------------------------------------------------ what it looks like

    def render(self) -> RenderableType:
        """The panel as it would be drawn now."""
        parts: list[RenderableType] = []
        if self._total_steps:
            parts += [self._progress(), Text(), self._figures(), Text(), self._shares()]
        if self._phase:
            parts.append(Text(self._phase, style="dim"))
        return Frame(Group(*parts), title=Text(self._title), box=ROUNDED, border_style="cyan")

    def _progress(self) -> RenderableType:
        spent_s = time.monotonic() - self._began_s
        done = self._env_steps - (self._start_steps or 0)
        left_s = spent_s / done * (self._total_steps - self._env_steps) if done > 0 else None
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True)
        share = f"{100 * self._env_steps / self._total_steps:.1f}%" if self._total_steps else ""
        eta = f"{clock(spent_s)} spent, {clock(left_s)} left" if left_s is not None else f"{clock(spent_s)} spent"
        grid.add_row(
            Text(f"{self._env_steps:,} / {self._total_steps:,} env steps  {share}"),
            ProgressBar(total=max(1, self._total_steps), completed=self._env_steps, complete_style="cyan"),
            Text(eta),
        )
        return grid

    def _figures(self) -> RenderableType:
        grid = Table.grid(padding=(0, 4), expand=True)
        cells = []
        for title, rows in _COLUMNS.items():
            table = Table.grid(padding=(0, 2))
            table.add_column()
            table.add_column(justify="right")
            table.add_row(Text(title, style="bold"), Text())
            for name, words in rows:
                if name in self._scalars:
                    table.add_row(Text(words, style="dim"), Text(number(self._scalars[name])))
            cells.append(table)
            grid.add_column(ratio=1)
        grid.add_row(*cells)
        return grid

    def _shares(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for role, spans in _ROLES.items():
            shares = {span: self._scalars.get(f"perf/{role}_{span}_share", 0.0) for span in spans}
            if any(shares.values()):
                # A wait that began before the row before may come to more than all of the time: never "-0%".
                busy = max(0.0, 1.0 - sum(shares.get(wait, 0.0) for wait in _WAITS))
                words = ", ".join(f"{span} {100 * share:.0f}%" for span, share in shares.items() if share >= 0.005)
                table.add_row(Text(role, style="bold"), Text(f"busy {100 * busy:.0f}%"), Text(words, style="dim"))
        return table


def clock(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
