import dataclasses
import json

import pytest
from contenders import TASKS, contenders, pick
from peers import Peer, PeerRun

from unilab.cli import parse

RECIPES = {"same recipe", "best recipe"}


@pytest.fixture(params=[True, False], ids=["fast at bf16", "slow at bf16"])
def fast(request, monkeypatch):
    """Whether the processor is fast at bfloat16."""
    monkeypatch.setattr("contenders.fast_bf16", lambda _: request.param)
    return request.param


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("env", sorted(TASKS))
def test_every_recipe_has_both_sides_and_no_name_comes_twice(env):
    everyone = contenders(env)

    assert len({one.name for one in everyone}) == len(everyone)
    for recipe in RECIPES:
        sides = {one.peer is None for one in everyone if one.recipe == recipe}
        assert sides == {True, False}


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("env", sorted(TASKS))
def test_unilab_takes_every_command_line(env):
    for one in contenders(env):
        if one.peer is None:
            cfg = parse([*one.options, "--env", env])
            assert cfg.precision == one.precision
            assert cfg.env.env == env


def test_nobody_computes_in_bfloat16_where_the_processor_is_slow_at_it(fast):
    precisions = {one.precision for one in contenders("HalfCheetah-v5")}

    assert precisions == ({"fp32", "bf16"} if fast else {"fp32"})


def test_the_published_settings_of_sac_are_the_same_on_both_sides():
    for env in TASKS:
        named = {one.name: one for one in contenders(env)}
        cfg = parse([*named["unilab-sac-sb3-fp32"].options, "--env", env])
        defaults = {"learning_rate": 3e-4, "learning_starts": 100}
        for library in ("sb3", "sbx"):
            theirs = defaults | dict(named[f"{library}-sac"].peer.settings)
            assert cfg.learner.learning_rate == theirs["learning_rate"]
            assert cfg.replay.learning_starts == theirs["learning_starts"]
            assert (cfg.env.num_envs, cfg.learner.policy_delay, cfg.pacing.utd) == (1, 1, 1)
            assert not cfg.sac.critic_layer_norm


def test_the_published_settings_of_crossq_are_the_same_on_both_sides():
    for env in TASKS:
        named = {one.name: one for one in contenders(env)}
        cfg = parse([*named["unilab-crossq-published"].options, "--env", env])
        peer = named["sbx-crossq"].peer
        theirs = {"learning_rate": 1e-3, "learning_starts": 100, "policy_delay": 3} | dict(peer.settings)
        assert cfg.learner.learning_rate == theirs["learning_rate"]
        assert cfg.learner.policy_delay == theirs["policy_delay"]
        assert cfg.replay.learning_starts == theirs["learning_starts"]
        assert list(cfg.learner.critic_hidden) == peer.policy["net_arch"]["qf"]
        assert list(cfg.learner.hidden) == peer.policy["net_arch"]["pi"]
        assert cfg.env.num_envs == peer.num_envs == 1


def test_the_fast_recipe_is_the_same_on_both_sides():
    named = {one.name: one for one in contenders("HalfCheetah-v5")}
    ours, theirs = named["unilab-fast-crossq"], named["sbx-fast-crossq"]
    cfg, peer = parse([*ours.options, "--env", "HalfCheetah-v5"]), theirs.peer

    assert cfg.learner.learning_rate == peer.settings["learning_rate"]
    assert cfg.learner.policy_delay == peer.settings["policy_delay"]
    assert cfg.replay.learning_starts == peer.settings["learning_starts"]
    assert cfg.replay.batch_size == peer.settings["batch_size"]
    assert list(cfg.learner.hidden) == peer.policy["net_arch"]["pi"]
    assert list(cfg.learner.critic_widths) == peer.policy["net_arch"]["qf"]
    assert cfg.env.num_envs == peer.num_envs
    assert cfg.pacing.utd * cfg.env.num_envs == peer.settings["gradient_steps"]
    assert ours.spread == theirs.spread == 1 / cfg.pacing.utd


def test_contenders_are_picked_by_how_their_names_begin():
    everyone = contenders("Pendulum-v1")

    assert pick(everyone, []) == everyone
    assert {one.name for one in pick(everyone, ["sbx-sac", "sb3-ppo"])} == {"sbx-sac", "sb3-ppo"}
    with pytest.raises(SystemExit, match="nobody"):
        pick(everyone, ["sbx-sac", "nobody"])


def test_what_a_peer_is_asked_for_comes_back_from_its_file(tmp_path):
    asked = PeerRun(peer=contenders("HalfCheetah-v5")[-1].peer, env="X-v0", seed=3, total_steps=10, every=5)
    asked.write(tmp_path / "spec.json")

    content = json.loads((tmp_path / "spec.json").read_text())

    assert PeerRun(**content | {"peer": Peer(**content["peer"])}) == asked
    assert dataclasses.asdict(asked) == content
