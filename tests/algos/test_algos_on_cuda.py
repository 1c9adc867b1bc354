import dataclasses

import pytest
import torch
from toy_learners import ALGOS, SMALL, env_spec, minibatch, same_state

from unilab.algos.registry import ALGORITHMS, make_learner
from unilab.spec import Minibatch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
NORMALISED = dataclasses.replace(SMALL, norm_obs=True)


def cuda_learner(algo: str, seed: int = 0):
    config = ALGORITHMS[algo].config()
    return make_learner(algo, env_spec(), NORMALISED, config, seed=seed, device="cuda")


def on_cuda(rows: Minibatch) -> Minibatch:
    columns = (getattr(rows, field.name) for field in dataclasses.fields(rows))
    return Minibatch(*(None if column is None else column.cuda() for column in columns))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("algo", ALGOS)
def test_an_update_never_waits_for_the_device(algo, weighted):
    made, rows = cuda_learner(algo), on_cuda(minibatch())
    if weighted:
        rows = dataclasses.replace(rows, weights=torch.rand(len(rows.reward), device="cuda"))
    made.update(rows)

    torch.cuda.set_sync_debug_mode("error")
    try:
        metrics = made.update(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")

    assert all(value.isfinite() for value in metrics.values())
    assert (made.td_errors is not None and made.td_errors.isfinite().all()) == weighted


@pytest.mark.parametrize("algo", ALGOS)
def test_a_run_on_cuda_continues_bit_for_bit(algo):
    straight, first, second = cuda_learner(algo), cuda_learner(algo), cuda_learner(algo, seed=1)
    for seed in range(3):
        for made in (straight, first):
            made.observe(minibatch(seed).obs, None)
            made.update(on_cuda(minibatch(seed)))
    second.load_state_dict(first.state_dict())
    for made in (straight, second):
        made.update(on_cuda(minibatch(3)))

    assert same_state(straight.state_dict(), second.state_dict())
