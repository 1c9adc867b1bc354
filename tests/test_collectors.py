"""What the learner's process asks of its collectors."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from unilab.collectors import _Member
from unilab.config import TrainConfig
from unilab.pacing import Line
from unilab.pacing.base import COUNTERS
from unilab.shm import Bell, Counters, Waiter


@pytest.fixture
def line():
    counters, bell = Counters(COUNTERS), Bell()
    yield Line(counters, bell, 60.0, "collector-0")
    bell.close()
    counters.free()


def test_an_answer_to_an_earlier_question_is_not_taken_for_the_state(line: Line) -> None:
    # Asked once while another collector died, it answers twice: at once, and when it is asked for the next save.
    line.counters["parked"] = 1
    answers = [(1, {"chunk": 5}), (2, {"chunk": 7})]

    def wait_message(kind: str, *_: Any) -> Any:
        assert kind == "state"
        return answers.pop(0)

    member = object.__new__(_Member)
    member.line = line
    member._worker = SimpleNamespace(alive=True, wait_message=wait_message)  # type: ignore[assignment]
    member._plan = SimpleNamespace(cfg=dataclasses.replace(TrainConfig()))  # type: ignore[assignment]

    assert member.state(Waiter(line.bell), None) == {"chunk": 7}
    assert answers == []
