import io

import pytest
import torch
from toy_learners import ALGOS, env_spec, flat, learner, minibatch, returns, same_state

from unilab.algos.base import LearnerConfig
from unilab.errors import ConfigError

PLAIN = LearnerConfig(hidden=(16, 16), policy_delay=2)
ENCODED = LearnerConfig(hidden=(16, 16), policy_delay=2, norm_obs=True, privileged_encoder=(8, 3))
NORMALISED = LearnerConfig(hidden=(16, 16), policy_delay=2, norm_obs=True, norm_reward=True)


def train(made, seeds, env) -> None:
    for seed in seeds:
        rows = minibatch(seed, env=env)
        made.observe(rows.obs, rows.critic_obs if env.critic_dim else None)
        made.observe_returns(returns(seed))
        made.update(rows)


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize(
    ("cfg", "critic_dim"),
    [(PLAIN, 0), (NORMALISED, 0), (NORMALISED, 4), (ENCODED, 7)],
    ids=["plain", "norm", "norm-critic", "norm-encoder"],
)
@pytest.mark.parametrize("half", [5, 0])
def test_n_updates_a_reload_and_n_updates_are_2n_updates_bit_for_bit(algo, cfg, critic_dim, half):
    env = env_spec(critic_dim=critic_dim)
    straight, first = learner(algo, cfg, env=env), learner(algo, cfg, env=env)
    train(straight, range(half + 5), env)
    train(first, range(half), env)

    second = learner(algo, cfg, env=env, seed=1)  # everything must come from the state
    second.load_state_dict(through_a_file(first.state_dict()))
    train(second, range(half, half + 5), env)

    assert same_state(second.state_dict(), straight.state_dict())
    assert second.updates == straight.updates == half + 5


@pytest.mark.parametrize("algo", ALGOS)
def test_two_learners_with_one_seed_are_the_same_and_with_another_are_not(algo):
    one, same, other = learner(algo), learner(algo), learner(algo, seed=1)
    for made in (one, same, other):
        train(made, range(3), env_spec())

    assert same_state(one.state_dict(), same.state_dict())
    assert not same_state(one.state_dict(), other.state_dict())


@pytest.mark.parametrize("algo", ALGOS)
def test_the_global_generator_is_neither_read_nor_moved(algo):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = learner(algo)
    train(one, range(2), env_spec())
    assert torch.equal(torch.random.get_rng_state(), before)

    torch.manual_seed(2)
    other = learner(algo)
    train(other, range(2), env_spec())
    assert same_state(one.state_dict(), other.state_dict())


@pytest.mark.parametrize("algo", ALGOS)
def test_a_saved_state_is_a_copy(algo):
    made = learner(algo)
    state = made.state_dict()
    before = flat(state)

    train(made, range(2), env_spec())
    fresh = learner(algo)
    fresh.load_state_dict(state)
    train(fresh, range(2), env_spec())

    assert all(torch.equal(value, before[key]) for key, value in flat(state).items())


@pytest.mark.parametrize("algo", ALGOS)
def test_loading_writes_into_the_tensors_that_are_there(algo):
    made, other = learner(algo, NORMALISED), learner(algo, NORMALISED, seed=1)
    train(other, range(2), env_spec())
    places = {key: value.data_ptr() for key, value in made.policy_module.state_dict().items()}

    made.load_state_dict(other.state_dict())

    assert {key: value.data_ptr() for key, value in made.policy_module.state_dict().items()} == places


@pytest.mark.parametrize("algo", [algo for algo in ALGOS if algo != "flashsac"])
@pytest.mark.parametrize(
    ("cfg", "env", "named"),
    [
        (LearnerConfig(hidden=(16, 8), policy_delay=2), env_spec(), r"\(16, 16\).*\(8, 16\)"),
        (NORMALISED, env_spec(), "reward_scale"),
        (PLAIN, env_spec(obs_dim=5), r"\(16, 3\).*\(16, 5\)"),
        (PLAIN, env_spec(critic_dim=4), "critic_norm"),
    ],
    ids=["hidden", "norm_obs", "obs_dim", "critic group"],
)
def test_a_state_of_another_shape_is_refused_by_name_and_changes_nothing(algo, cfg, env, named):
    refused(algo, cfg, env, named)


@pytest.mark.parametrize(
    ("cfg", "env", "named"),
    [
        (LearnerConfig(hidden=(8, 8), policy_delay=2), env_spec(), r"\(1, 16\).*\(1, 8\)"),
        (NORMALISED, env_spec(), "reward_scale"),
        (PLAIN, env_spec(obs_dim=5), r"\(1, 3\).*\(1, 5\)"),
        (PLAIN, env_spec(critic_dim=4), "critic_norm"),
    ],
    ids=["hidden", "norm_obs", "obs_dim", "critic group"],
)
def test_so_is_one_of_residual_blocks_which_have_one_width(cfg, env, named):
    refused("flashsac", cfg, env, named)


def refused(algo, cfg, env, named):
    made = learner(algo, cfg, env=env)
    before = made.state_dict()

    with pytest.raises(ConfigError, match=named):
        made.load_state_dict(learner(algo, PLAIN).state_dict())

    assert same_state(made.state_dict(), before)


def test_a_state_from_another_kind_of_device_is_refused():
    state = learner("sac").state_dict()
    state["noise"]["device"] = "cuda"

    with pytest.raises(ConfigError, match="device=cuda"):
        learner("sac").load_state_dict(state)


def test_a_learned_temperature_does_not_continue_as_a_fixed_one():
    with pytest.raises(ConfigError, match="temperature"):
        learner("sac", ent_coef=0.2).load_state_dict(learner("sac").state_dict())
