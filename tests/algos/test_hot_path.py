"""What an update must not do: wait for the device, hold on to rows, or lose sight of re-pointed weights."""

import dataclasses

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from toy_learners import ALGOS, SMALL, env_spec, learner, minibatch, same_state

NORMALISED = dataclasses.replace(SMALL, norm_obs=True, norm_reward=True)
METRICS = {
    "sac": {"actor_loss", "critic_loss", "ent_coef", "ent_coef_loss", "learning_rate", "q_mean"},
    "fasttd3": {"actor_loss", "critic_loss", "learning_rate", "q_mean", "support_edge"},
    "fastsac": {
        "actor_loss",
        "critic_loss",
        "ent_coef",
        "ent_coef_loss",
        "learning_rate",
        "q_mean",
        "support_edge",
    },
    "crossq": {"actor_loss", "critic_loss", "ent_coef", "ent_coef_loss", "learning_rate", "q_mean"},
    "flashsac": {"actor_loss", "critic_loss", "ent_coef", "ent_coef_loss", "learning_rate", "q_mean", "support_edge"},
    "td3": {"actor_loss", "critic_loss", "learning_rate", "q_mean"},
}


class NoScalarReads(TorchDispatchMode):
    """Fails on whatever ``.item()``, ``bool(tensor)`` and data-dependent shapes come down to."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        forbidden = ("_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "_to_copy.cpu")
        assert not any(name in str(func) for name in forbidden), f"{func} waits for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("algo", ALGOS)
def test_an_update_reads_no_scalar_back(algo):
    made = learner(algo, NORMALISED)
    made.update(minibatch())

    with NoScalarReads():
        made.update(minibatch())

    with pytest.raises(AssertionError, match="waits"), NoScalarReads():
        torch.ones(()).item()


@pytest.mark.parametrize("algo", ALGOS)
def test_metrics_are_detached_scalars_that_later_updates_leave_alone(algo):
    made = learner(algo)
    metrics = made.update(minibatch())
    before = {name: value.item() for name, value in metrics.items()}

    made.update(minibatch(1))

    assert metrics.keys() == METRICS[algo]
    for name, value in metrics.items():
        assert value.shape == ()
        assert not value.requires_grad
        assert value.item() == before[name]


@pytest.mark.parametrize("algo", ALGOS)
def test_a_policy_module_moved_into_one_block_trains_there_and_to_the_same_bits(algo):
    made, plain = learner(algo, NORMALISED), learner(algo, NORMALISED)
    state = made.policy_module.state_dict(keep_vars=True)
    block = torch.zeros(len(state), 4096, dtype=torch.uint8)
    for row, tensor in zip(block, state.values(), strict=True):
        nbytes = tensor.numel() * tensor.element_size()
        tensor.data = row[:nbytes].view(tensor.dtype).view(tensor.shape).copy_(tensor.detach())

    for each in (made, plain):
        for seed in range(3):
            each.observe(minibatch(seed).obs, None)
            each.update(minibatch(seed))

    assert same_state(made.state_dict(), plain.state_dict())
    for row, tensor in zip(block, made.policy_module.state_dict().values(), strict=True):
        assert tensor.data_ptr() == row.data_ptr()


@pytest.mark.parametrize("algo", ALGOS)
def test_a_minibatch_may_alias_memory_that_is_overwritten_after_the_update(algo):
    made, other = learner(algo), learner(algo)
    rows, kept = minibatch(), minibatch()
    made.update(rows), other.update(kept)
    for field in dataclasses.fields(rows):
        if (column := getattr(rows, field.name)) is not None:
            column.zero_()

    made.update(minibatch(1)), other.update(minibatch(1))

    assert same_state(made.state_dict(), other.state_dict())


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_any_number_of_rows_may_come(algo, rows):
    env = env_spec(action_dim=1)
    made = learner(algo, env=env)

    for count in (32, rows):
        assert all(value.isfinite() for value in made.update(minibatch(rows=count, env=env)).values())
