import numpy as np
import pytest

from unilab.seeding import EVAL_INDEX, ROLES, env_seed, eval_seed, stream, torch_seed

RUNS, ENVS = 200, 64


def test_no_two_envs_of_any_two_neighbouring_runs_share_a_seed():
    train = {env_seed(run, i) for run in range(RUNS) for i in range(ENVS)}
    evaluation = {eval_seed(run, i) for run in range(RUNS) for i in range(ENVS)}

    assert len(train) == len(evaluation) == RUNS * ENVS
    assert not train & evaluation


def test_env_seeds_fit_simulators_that_keep_31_bits():
    seeds = [env_seed(run, i) for run in (0, 1, 131_071) for i in (0, 1, EVAL_INDEX)]

    assert all(0 <= seed < 2**31 for seed in seeds)


def test_the_last_training_env_and_the_first_evaluation_env_differ():
    assert len({env_seed(5, EVAL_INDEX - 1), eval_seed(5, 0), eval_seed(5, 1), env_seed(6, 0)}) == 4


def test_env_seeds_are_not_consecutive():
    seeds = np.array([env_seed(7, i) for i in range(64)])

    assert (np.abs(np.diff(seeds)) > 1000).all()


def test_streams_differ_by_run_role_and_index_and_repeat_themselves():
    keys = [(run, role, i) for run in (7, 8) for role in ROLES for i in (0, 1)]

    assert len({torch_seed(stream(*key)) for key in keys}) == len(keys)
    assert torch_seed(stream(7, "sample", 3)) == torch_seed(stream(7, "sample", 3))
    assert 0 <= torch_seed(stream(7, "sample")) < 2**63


def test_an_unknown_role_is_our_own_bug():
    with pytest.raises(KeyError):
        stream(7, "smaple")
