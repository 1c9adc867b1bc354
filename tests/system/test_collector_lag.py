"""How old a free-running collector says that its weights were, where the learner goes on in the middle of things."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from test_many_collectors import small
from unilab.algos.registry import make_learner
from unilab.assembly import collector_jobs, open_shared
from unilab.pacing.schedule import NEWEST, Chunk
from unilab.preflight import Plan, plan_run
from unilab.telemetry.trace import Tracer
from unilab.weights import FlatState, WeightBlock, WeightReader, WeightWriter
from unilab.workers.collector import Collector, open_collector


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_run(small(tmp_path, 2, pacing="free"))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def collector_of(plan: Plan, stack: ExitStack) -> tuple[Collector, WeightWriter]:
    cfg = plan.cfg
    learner = make_learner(cfg.algo, plan.spec, cfg.learner, cfg.algo_config, seed=0, device=plan.device)
    state = FlatState(learner.policy_module)
    block = WeightBlock(state.manifest)
    stack.callback(block.free)
    job = collector_jobs(plan, open_shared(plan, stack), block)[0]
    return stack.enter_context(open_collector(job, Tracer("collector-0"))), WeightWriter(block, state)


def test_what_the_learner_does_after_a_fetch_makes_weights_old_at_arrival_and_not_at_launch(
    plan: Plan, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, weights = collector_of(plan, stack)
    counters, fetch = collector._counters, WeightReader.fetch_if_newer

    def fetch_and_wait(self: WeightReader) -> int:
        version = fetch(self)
        counters["version"] += 5  # the learner counts five versions before this process goes on
        return version

    monkeypatch.setattr(WeightReader, "fetch_if_newer", fetch_and_wait)
    weights.publish(version=7)
    counters["version"] = 9  # two that were not published
    collector.run(Chunk(1, rounds=1, version=NEWEST), lambda: None)

    assert collector._stats.lags(1) == (2, 7)
