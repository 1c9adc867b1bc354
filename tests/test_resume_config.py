"""What may differ between a run and the checkpoint that it goes on from."""

from __future__ import annotations

import dataclasses

import pytest

from unilab.config import TrainConfig, as_plain, overlay
from unilab.errors import ConfigError
from unilab.resume import FIXED, FREE, check_changes

SAVED = TrainConfig()


def changed(values):
    return overlay(SAVED, values, "test")


def flat():
    """Every key of a config, dotted."""
    plain = as_plain(SAVED)
    return {
        f"{key}.{inner}" if isinstance(value, dict) else key
        for key, value in plain.items()
        for inner in (value if isinstance(value, dict) else [key])
    }


def test_every_key_that_is_named_exists():
    assert flat() >= FREE | FIXED
    assert not FREE & FIXED


def test_equal_configs_go_on():
    check_changes(dataclasses.replace(SAVED), SAVED, ())


def test_what_changes_nothing_learnt_may_differ():
    check_changes(changed({"total_steps": 99_000, "log_every": 7, "evaluation": {"eval_episodes": 3}}), SAVED, ())


def test_what_differs_is_named_with_both_values_and_the_way_out():
    cfg = changed({"learner": {"gamma": 0.9}, "replay": {"batch_size": 8}})
    with pytest.raises(ConfigError) as caught:
        check_changes(cfg, SAVED, ())

    assert "learner.gamma=0.9 (was 0.99), replay.batch_size=8 (was 256)" in str(caught.value)
    assert "--resume-allow learner.gamma replay.batch_size" in str(caught.value)


@pytest.mark.parametrize("name", ["learner.gamma", "gamma"])
def test_a_key_that_is_allowed_may_differ_and_no_other(name):
    check_changes(changed({"learner": {"gamma": 0.9}}), SAVED, [name])
    with pytest.raises(ConfigError, match="tau"):
        check_changes(changed({"learner": {"gamma": 0.9, "tau": 0.5}}), SAVED, [name])


def test_gamma_is_fixed_where_rows_are_sums_of_rewards():
    saved = changed({"learner": {"n_step": 3}})
    now = changed({"learner": {"n_step": 3, "gamma": 0.9}})

    with pytest.raises(ConfigError, match="gamma cannot differ"):
        check_changes(now, saved, ["gamma"])
    with pytest.raises(ConfigError, match=r"gamma=0.9 \(was 0.99\); leave them out$"):
        check_changes(now, saved, ())
    check_changes(saved, saved, ())


def test_dashes_and_env_kwargs_are_understood():
    check_changes(changed({"env": {"env_kwargs": {"a": {"b": 1}}}}), SAVED, ["env-kwargs"])


@pytest.mark.parametrize("key", sorted(FIXED))
def test_what_the_saved_state_depends_on_is_never_allowed(key):
    with pytest.raises(ConfigError, match="cannot differ"):
        check_changes(SAVED, SAVED, [key])


def test_a_fixed_key_that_differs_offers_no_way_but_to_leave_it_out():
    with pytest.raises(ConfigError, match=r"seed=5 \(was 0\); leave them out$"):
        check_changes(changed({"seed": 5}), SAVED, ())


def test_an_unknown_key_gets_the_nearest_known_one():
    with pytest.raises(ConfigError, match="unknown key 'gama'; did you mean 'gamma'"):
        check_changes(SAVED, SAVED, ["gama"])
