"""What a check has found: how bad it is, what was looked at, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from unilab.errors import ResourceError

Level = Literal["ok", "warn", "FAIL"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report; small and picklable."""

    level: Level
    check: str  # one or two words
    saw: str  # what was looked at, with numbers
    advice: str = ""  # what to do; empty where all is well
    detail: str = ""  # further lines, such as a traceback

    def text(self) -> str:
        """What was seen and what to do, in one line."""
        return "; ".join(filter(None, (self.saw, self.advice)))


def ok(check: str, saw: str) -> Finding:
    """All is well."""
    return Finding("ok", check, saw)


def warn(check: str, saw: str, advice: str, detail: str = "") -> Finding:
    """A run would work, but perhaps not as meant."""
    return Finding("warn", check, saw, advice, detail)


def fail(check: str, saw: str, advice: str, detail: str = "") -> Finding:
    """A run would not work."""
    return Finding("FAIL", check, saw, advice, detail)


def warnings_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The texts of all warnings.

    Raises:
        ResourceError: one of the findings is a failure.
    """
    texts = []
    for finding in findings:
        if finding.level == "FAIL":
            raise ResourceError(finding.text())
        if finding.level == "warn":
            texts.append(f"{finding.check}: {finding.text()}")
    return tuple(texts)
