import dataclasses

import numpy as np
import pytest
import torch
from toy_learners import ALGOS, SMALL, env_spec, learner, minibatch, policy

from unilab.algos.base import PolicySpec
from unilab.algos.registry import make_policy
from unilab.algos.td3 import TD3Config

OBS = {"obs": np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32) * 3}
ENDED = np.zeros(8, np.bool_)


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("n", [1, 8])
def test_actions_have_their_shape_and_dtype_and_stay_within_one(algo, n):
    made = policy(algo, **({"td3": {"exploration_noise": 5.0}, "fasttd3": {"noise_max": 5.0}}.get(algo, {})))
    obs, ended = {"obs": OBS["obs"][:n]}, ENDED[:n]

    for action in [made.act(obs), *(made.explore(obs, ended) for _ in range(20))]:
        assert action.shape == (n, 2)
        assert action.dtype == np.float32
        assert np.abs(action).max() <= 1.0


@pytest.mark.parametrize("algo", ALGOS)
def test_an_action_is_the_callers_to_keep(algo):
    made = policy(algo)
    first = made.explore(OBS, ENDED)
    kept = first.copy()

    made.explore(OBS, ENDED)

    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("algo", ALGOS)
def test_acting_is_deterministic_and_draws_no_noise(algo):
    made, other = policy(algo), policy(algo)

    np.testing.assert_array_equal(made.act(OBS), made.act(OBS))
    np.testing.assert_array_equal(made.explore(OBS, ENDED), other.explore(OBS, ENDED))


@pytest.mark.parametrize("algo", ALGOS)
def test_noise_is_the_same_for_one_seed_and_index_and_different_for_another_index_or_seed(algo):
    module = policy(algo).module.state_dict()

    def explored(seed: int, index: int) -> list[np.ndarray]:
        made = policy(algo, seed=seed, index=index)
        made.module.load_state_dict(module)  # the same networks, so that only the noise can differ
        return [made.explore(OBS, ENDED) for _ in range(3)]

    base = explored(0, 0)
    assert len({action.tobytes() for action in base}) == 3
    np.testing.assert_array_equal(base, explored(0, 0))
    assert not np.equal(base, explored(0, 1)).any()
    assert not np.equal(base, explored(1, 0)).any()


@pytest.mark.parametrize("algo", ALGOS)
def test_exploration_continues_from_its_saved_state_with_the_same_bits(algo):
    made, other = policy(algo), policy(algo, index=7)
    made.explore(OBS, ENDED)
    state = made.explore_state()
    expected = [made.explore(OBS, ENDED) for _ in range(3)]

    other.load_explore_state(state)

    np.testing.assert_array_equal([other.explore(OBS, ENDED) for _ in range(3)], expected)
    assert all(isinstance(value, torch.Tensor) for value in state.values())


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("norm_obs", [False, True])
def test_a_policy_is_published_to_by_name_and_then_acts_as_the_learner_would(algo, norm_obs):
    cfg = dataclasses.replace(SMALL, norm_obs=norm_obs)
    trained, acting = learner(algo, cfg), policy(algo, cfg)
    trained.observe(minibatch().obs, None)
    trained.update(minibatch())
    published = trained.policy_module.state_dict()
    kinds = {name: (value.shape, value.dtype) for name, value in published.items()}
    assert {name: (value.shape, value.dtype) for name, value in acting.module.state_dict().items()} == kinds
    assert any(name.startswith("norm.") for name in kinds) == norm_obs

    acting.module.load_state_dict(published)

    with torch.no_grad():
        expected = trained.policy_module(torch.from_numpy(OBS["obs"])).numpy()
    np.testing.assert_array_equal(acting.act(OBS), expected)


@pytest.mark.parametrize("algo", ALGOS)
def test_a_policy_starts_with_the_networks_that_its_runs_learner_starts_with(algo):
    theirs, ours = (
        learner(algo, seed=3).policy_module.state_dict(),
        policy(algo, seed=3, index=5).module.state_dict(),
    )

    assert all(torch.equal(ours[name], value) for name, value in theirs.items())


def test_sac_explores_with_the_standard_deviation_of_its_actor():
    made = policy("sac")
    with torch.no_grad():
        for parameter in made.module.parameters():
            parameter.zero_()
        made.module.get_parameter("actor.net.4.bias").copy_(torch.tensor([0.3, -0.3, -2.0, -1.0]))

    obs = {"obs": np.zeros((4000, 3), np.float32)}
    before_tanh = np.arctanh(made.explore(obs, np.zeros(4000, np.bool_)).astype(np.float64))

    np.testing.assert_allclose(before_tanh.mean(0), [0.3, -0.3], atol=0.03)
    np.testing.assert_allclose(before_tanh.std(0), np.exp([-2.0, -1.0]), rtol=0.05)


def test_td3_explores_with_its_own_standard_deviation_in_the_normalised_scale():
    env = env_spec(action_dim=1)
    made = policy("td3", env=env, exploration_noise=0.1)
    obs = {"obs": np.zeros((4000, 3), np.float32)}

    noise = made.explore(obs, np.zeros(4000, np.bool_)) - made.act(obs)

    assert noise.mean() == pytest.approx(0.0, abs=0.01)
    assert noise.std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("schedule", [{}, {"noise_schedule": "cosine", "noise_final": 0.2}])
@pytest.mark.parametrize(("algo", "sizes"), [("td3", {}), ("fasttd3", {"noise_max": 0.05})])
def test_noise_is_what_its_schedule_left_of_the_same_draws(algo, sizes, schedule):
    def noise(progress: float) -> np.ndarray:
        made = policy(algo, **sizes, **schedule)
        made.at(progress)
        explored = made.explore(OBS, ENDED)
        assert np.abs(explored).max() < 1.0  # nothing is clipped
        return (explored - made.act(OBS)).astype(np.float64)

    for progress, share in ((0.25, 0.2 + 0.8 * (1 + 0.5**0.5) / 2), (0.5, 0.6), (1.0, 0.2), (7.0, 0.2)):
        expected = noise(0.0) * (share if schedule else 1.0)
        np.testing.assert_allclose(noise(progress), expected, atol=1e-6)


def test_a_policy_can_be_made_for_any_moment_of_a_run():
    spec = PolicySpec(
        algo="td3", env=env_spec(), learner=SMALL, algo_config=TD3Config(noise_schedule="linear"), progress=1.0
    )
    made = make_policy(spec, seed=0, index=0)

    np.testing.assert_array_equal(made.explore(OBS, ENDED), made.act(OBS))


def sizes_of(noise) -> np.ndarray:
    """Standard deviation of each env's noise; [steps, envs, dims] in."""
    return np.asarray(noise).std(axis=(0, 2))


def explored(made, steps, ended):
    """Noise of some steps of actions near 0, where nothing is clipped."""
    obs = {"obs": np.zeros((len(ended), 3), np.float32)}
    first = made.explore(obs, ended) - made.act(obs)
    return [first, *(made.explore(obs, np.zeros_like(ended)) - made.act(obs) for _ in range(steps - 1))]


def test_fasttd3_explores_with_a_size_for_each_env_that_lasts_an_episode():
    made, nobody = policy("fasttd3", noise_min=0.02, noise_max=0.2, env=env_spec(action_dim=8)), np.zeros(64, np.bool_)
    half = np.arange(64) < 32

    before = sizes_of(explored(made, 200, nobody))
    same = sizes_of(explored(made, 200, nobody))
    after = sizes_of(explored(made, 200, half))

    np.testing.assert_allclose(same, before, rtol=0.15)
    np.testing.assert_allclose(after[~half], before[~half], rtol=0.15)
    assert (np.abs(after[half] / before[half] - 1.0) > 0.15).mean() > 0.6
    for sizes in (before, after):  # uniform in [0.02, 0.2]
        assert sizes.min() > 0.017
        assert sizes.max() < 0.22
        assert sizes.mean() == pytest.approx(0.11, abs=0.02)


def test_fasttd3_keeps_each_envs_size_over_a_reload():
    env = env_spec(action_dim=8)
    made, other = policy("fasttd3", env=env), policy("fasttd3", env=env, index=3)
    explored(made, 1, np.zeros(4, np.bool_))

    other.load_explore_state(made.explore_state())

    ended = np.array([False, True, False, False])
    np.testing.assert_array_equal(explored(other, 3, ended), explored(made, 3, ended))


def test_fastsac_starts_in_the_middle_of_its_ranges_whatever_it_sees():
    made = policy("fastsac", env=env_spec(action_dim=1), log_std_min=-3.0, log_std_max=-1.0)
    obs = {"obs": np.random.default_rng(1).normal(size=(4000, 3)).astype(np.float32) * 9.0}

    before_tanh = np.arctanh(made.explore(obs, np.zeros(4000, np.bool_)).astype(np.float64))

    np.testing.assert_array_equal(made.act(obs), np.zeros((4000, 1)))
    assert before_tanh.std() == pytest.approx(np.exp(-2.0), rel=0.05)


@pytest.mark.parametrize(
    ("algo", "options", "said"),
    [
        ("td3", {}, "0.1"),
        ("td3", {"noise_schedule": "linear"}, "0.1, down to 0 of it (linear)"),
        ("fasttd3", {"noise_schedule": "cosine", "noise_final": 0.25}, "0.001 to 0.4, down to 0.25 of it (cosine)"),
    ],
)
def test_the_header_says_how_exploration_noise_falls(algo, options, said):
    assert learner(algo, **options).facts()["exploration noise"] == said
