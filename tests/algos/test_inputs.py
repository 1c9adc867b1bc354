import dataclasses

import pytest
import torch
from toy_learners import ALGOS, SMALL, env_spec, learner, minibatch

from unilab.algos.inputs import make_inputs
from unilab.nets.actor import NormalizedActor, TanhActor
from unilab.nets.normalizer import RunningNorm
from unilab.nets.sight import SeesObs
from unilab.spec import ReturnStats

NORMALISED = dataclasses.replace(SMALL, norm_obs=True)
CPU = torch.device("cpu")


def published(norm: RunningNorm) -> NormalizedActor:
    return NormalizedActor(norm, TanhActor(3, 2, (4,), torch.Generator()), SeesObs(3))


def test_without_a_critic_group_the_critics_see_what_the_actor_sees():
    norm, rows = RunningNorm(3), minibatch()
    inputs = make_inputs(env_spec(), published(norm), NORMALISED, device=CPU)

    inputs.observe(rows.obs, None)
    seen = inputs(rows)

    assert norm.count.item() == 32
    assert torch.equal(seen.obs, norm(rows.obs))
    assert torch.equal(seen.next_obs, norm(rows.next_obs))
    assert seen.critic_obs is seen.obs
    assert seen.next_critic_obs is seen.next_obs
    assert inputs.parts == {}


def test_a_critic_group_has_a_normaliser_of_its_own():
    env = env_spec(critic_dim=4)
    norm, rows = RunningNorm(3), minibatch(env=env)
    inputs = make_inputs(env, published(norm), NORMALISED, device=CPU)

    inputs.observe(rows.obs, rows.critic_obs)
    seen = inputs(rows)

    oracle = RunningNorm(4)
    oracle.update(rows.critic_obs)
    assert torch.equal(seen.obs, norm(rows.obs))
    assert torch.equal(seen.critic_obs, oracle(rows.critic_obs))
    assert torch.equal(seen.next_critic_obs, oracle(rows.next_critic_obs))


@pytest.mark.parametrize("algo", ALGOS)
def test_the_critics_own_normaliser_is_saved_and_not_published(algo):
    made = learner(algo, NORMALISED, env=env_spec(critic_dim=4))

    assert made.state_dict()["critic_norm"]["mean"].shape == (4,)
    assert made.policy_module.state_dict()["norm.mean"].shape == (3,)


@pytest.mark.parametrize("algo", ALGOS)
def test_updates_do_not_feed_the_normaliser(algo):
    made = learner(algo, NORMALISED)
    made.observe(minibatch().obs, None)

    made.update(minibatch())

    assert made.policy_module.get_buffer("norm.count").item() == 32


@pytest.mark.parametrize("algo", ALGOS)
def test_without_normalisation_observing_changes_nothing(algo):
    made, other = learner(algo), learner(algo)
    made.observe(minibatch().obs, None)

    one, two = made.update(minibatch()), other.update(minibatch())

    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not list(made.policy_module.norm.buffers())


@pytest.mark.parametrize("critic_dim", [0, 4])
def test_rewards_are_scaled_by_the_newest_returns_and_only_where_asked(critic_dim):
    env = env_spec(critic_dim=critic_dim)
    rows, returns = minibatch(env=env), ReturnStats(count=4, mean=0.0, m2=16.0, peak=2.0)
    plain = make_inputs(env, published(RunningNorm(3)), NORMALISED, device=CPU)
    with_scale = dataclasses.replace(NORMALISED, norm_reward=True)
    scaled = make_inputs(env, published(RunningNorm(3)), with_scale, device=CPU)

    for inputs in (plain, scaled):
        inputs.rewards.update(returns)

    assert plain(rows).reward is rows.reward
    assert torch.equal(scaled(rows).reward, rows.reward / 2.0)
    assert "reward_scale" not in plain.parts
    assert scaled.parts["reward_scale"].count.item() == 4


@pytest.mark.parametrize("algo", ALGOS)
def test_the_scale_of_rewards_is_saved_and_not_published_and_values_are_in_env_units(algo):
    made = learner(algo, dataclasses.replace(SMALL, norm_reward=True))
    obs, action = minibatch().obs, minibatch().action
    before = made.q_values(obs, action)

    made.observe_returns(ReturnStats(count=4, mean=0.0, m2=16.0, peak=2.0))

    assert made.state_dict()["reward_scale"]["peak"].item() == 2.0
    assert "reward_scale" not in str(made.policy_module.state_dict().keys())
    torch.testing.assert_close(made.q_values(obs, action), 2.0 * before)
    assert made.update(minibatch())["reward_scale"].item() == 0.5
