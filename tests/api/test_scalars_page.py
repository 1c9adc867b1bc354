"""docs/scalars.md has every scalar that a run writes, and none that it does not."""

import json
import re
from pathlib import Path

import pytest
from model_samples import small
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from unilab import SAC, TD3, FastTD3

PAGE = (Path(__file__).parents[2] / "docs/scalars.md").read_text()
ROWS = re.findall(r"^\| `([a-z]+/[\w<>]+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
TABLE = {name for name, *_ in ROWS}
RARE = {"rollout/skipped_steps", "lag/dropped_steps", "lag/rejected_priorities"}
"""Written only once there are some: where something goes wrong, or comes too late."""


def written(run_dir):
    """Names in progress.csv, TensorBoard and eval.jsonl."""
    names = set((run_dir / "progress.csv").read_text().splitlines()[0].split(",")) - {"env_steps"}
    events = EventAccumulator(str(run_dir))
    events.Reload()
    names |= set(events.Tags()["scalars"])
    for line in (run_dir / "eval.jsonl").read_text().splitlines():
        names |= set(json.loads(line)["scalars"])
    return names


def in_table(name, metrics):
    prefix, _, rest = name.partition("/")
    return name in TABLE or (rest in metrics and f"{prefix}/<metric>" in TABLE)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scalars")
    made = [
        small(folder / "sac", model=SAC),
        small(folder / "td3", model=TD3, serial=False, norm_reward=True),  # what only two processes have
        small(folder / "fasttd3", model=FastTD3),
        small(folder / "native", "Reacher-v5", num_envs=2),
        small(
            folder / "free",
            model=SAC,
            serial=False,
            pacing="free",
            num_collectors=2,
            num_envs=2,
            max_policy_lag=1,
            sampler="per",
        ),
    ]
    return [model.learn(200) for model in made]


def test_every_scalar_of_a_short_run_is_in_the_table(runs):
    metrics = {"tick", "reward_dist", "reward_ctrl"}
    names = set().union(*(written(model.run_dir) for model in runs))

    assert len(names) > 30
    assert sorted(name for name in names if not in_table(name, metrics)) == []


def test_the_table_has_no_scalar_that_nothing_writes(runs):
    names = set().union(*(written(model.run_dir) for model in runs))

    assert {name for name in TABLE if "<" not in name} - names - RARE == set()


def test_every_row_has_a_unit_and_a_meaning():
    assert ROWS
    assert all(unit.strip() and meaning.strip() for _, unit, meaning, _ in ROWS)
    assert len(TABLE) == len(ROWS), "a name has two rows"
