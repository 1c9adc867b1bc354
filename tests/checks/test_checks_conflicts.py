"""Settings that are legal together but odd, one pair at a time."""

import pytest

from unilab.checks.conflicts import conflict_findings
from unilab.config import TrainConfig, check, overlay
from unilab.spec import EnvSpec

SPEC = EnvSpec(env_id="X-v0", obs_dim=3, action_dim=1, action_low=(-1.0,), action_high=(1.0,), max_episode_steps=20_000)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"replay": {"learning_starts": 5000, "buffer_size": 4999}}, "learning_starts=5,000 is more than buffer_size"),
        ({"replay": {"learning_starts": 255}}, "batch_size=256 is more than the prefill of 255 rows"),
        ({"save_every": 60_001}, "save_every=60,001 is more than total_steps=60,000"),
        ({"log_every": 60_001}, "log_every=60,001 is more than total_steps=60,000"),
        ({"evaluation": {"eval_max_steps": 19_999}}, "less than the env's time limit of 20,000"),
    ],
)
def test_a_legal_but_odd_pair_of_settings_is_named(sections, said):
    cfg = overlay(TrainConfig(), {"evaluation": {"eval_max_steps": 20_000}} | sections, "test")
    check(cfg)

    [found] = conflict_findings(cfg, SPEC)

    assert found.level == "warn"
    assert said in found.saw
    assert found.advice.startswith("use ")


def test_the_defaults_do_not_contradict_each_other():
    assert [found.level for found in conflict_findings(TrainConfig())] == ["ok"]


def test_an_evaluation_that_is_left_out_cuts_no_episode():
    cfg = overlay(TrainConfig(), {"evaluation": {"eval_episodes": 0}}, "test")

    assert [found.level for found in conflict_findings(cfg, SPEC)] == ["ok"]
