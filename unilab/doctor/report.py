"""Findings on the console: one line each, or all of them as JSON at the end."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict

from unilab.checks.finding import Finding
from unilab.telemetry.console import Console


class Report:
    """Takes findings as they come.

    Args:
        as_json: print nothing but one JSON object, at the end.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._findings: list[Finding] = []
        self._as_json = as_json
        self._console = Console(sys.stdout)

    @property
    def failed(self) -> bool:
        """Whether any finding is a failure."""
        return any(finding.level == "FAIL" for finding in self._findings)

    @property
    def exit_code(self) -> int:
        """0 if nothing failed, 2 otherwise."""
        return 2 if self.failed else 0

    def add(self, *findings: Finding) -> None:
        """Take findings and, unless the report is JSON, print them."""
        self._findings += findings
        for finding in [] if self._as_json else findings:
            self._console.note(line(finding))

    def close(self) -> None:
        """Print the sum, or everything as JSON."""
        counts = Counter(finding.level for finding in self._findings)
        if self._as_json:
            content = {
                "exit_code": self.exit_code,
                "warnings": counts["warn"],
                "failures": counts["FAIL"],
                "findings": [asdict(finding) for finding in self._findings],
            }
            self._console.note(json.dumps(content, indent=2))
            return
        verdict = "this run would not work" if self.failed else "this run can start"
        self._console.note(f"{counts['ok']} ok, {counts['warn']} warn, {counts['FAIL']} FAIL: {verdict}")


def line(finding: Finding) -> str:
    """``warn  threads  what was seen; what to do``, and the detail indented below."""
    below = "".join(f"\n    {row}" for row in finding.detail.splitlines())
    return f"{finding.level:<4}  {finding.check:<13}  {' '.join(finding.text().split())}{below}"
