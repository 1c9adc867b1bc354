"""What a row's weight does to an update, and what an update tells about its rows, for every algorithm."""

import dataclasses

import numpy as np
import pytest
import torch
from test_hot_path import NoScalarReads
from toy_learners import ALGOS, SMALL, env_spec, learner, minibatch, same_state

from unilab.algos import compiled
from unilab.algos.categorical import Support, cross_entropy, divergences, project
from unilab.algos.compiled import Compute
from unilab.algos.symmetry import HalfMirrored
from unilab.algos.targets import TD_ERRORS, absolute_errors, twin_loss, weighted
from unilab.mirror import Mirror, in_place
from unilab.replay.priorities import Priorities

BATCH_NORM = ("crossq", "flashsac")
ROW_BY_ROW = tuple(algo for algo in ALGOS if algo not in BATCH_NORM)
CPU = torch.device("cpu")


def with_weights(batch, *weights):
    return dataclasses.replace(batch, weights=torch.tensor(weights, dtype=torch.float32))


def some(batch, rows):
    """These rows of a batch."""
    columns = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    return dataclasses.replace(batch, **{n: column[rows] for n, column in columns.items() if column is not None})


def gradient(algo, batch, noise=None, **options):
    """Of the critics' loss in a first update; flat float32."""
    made = learner(algo, **options)
    noise = some_noise(len(batch.reward)) if noise is None else noise
    optimizer, caught = made._rule._critic_optimizer, []

    def catch(loss):
        parts = torch.autograd.grad(loss, optimizer._targets)
        caught.append(torch.cat([part.flatten() for part in parts]))

    optimizer.descend = catch
    made._rule.update(batch, noise[: made._rule.draws], False)
    return caught[0]


def some_noise(rows):
    return torch.randn(2, rows, 2, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("algo", ROW_BY_ROW)
def test_weights_of_1_and_0_give_the_gradient_of_the_first_row_alone_divided_by_their_number(algo):
    batch, noise = minibatch(rows=2), some_noise(2)
    got = gradient(algo, with_weights(batch, 1.0, 0.0), noise)

    alone = gradient(algo, some(batch, slice(1)), noise[:, :1])
    torch.testing.assert_close(got, alone / 2, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("algo", ALGOS)
def test_a_row_without_weight_has_no_part_in_the_gradient_whatever_its_reward(algo):
    """Where statistics of the batch tie rows together, too: there the row is seen, but its error is not."""
    batch = minibatch(rows=2)
    other = dataclasses.replace(batch, reward=batch.reward + torch.tensor([0.0, 2.0]))
    first, second = (1.0, 0.0), (0.0, 1.0)

    assert torch.equal(gradient(algo, with_weights(batch, *first)), gradient(algo, with_weights(other, *first)))
    assert not torch.equal(gradient(algo, with_weights(batch, *second)), gradient(algo, with_weights(other, *second)))


@pytest.mark.parametrize("algo", ALGOS)
def test_the_gradient_is_the_sum_of_what_each_row_gives_times_its_weight(algo):
    batch = minibatch(rows=3)
    each = [gradient(algo, with_weights(batch, *unit)) for unit in torch.eye(3).tolist()]
    together = 0.5 * each[0] + 3.0 * each[1] + 0.25 * each[2]

    scale = together.abs().max().item()
    torch.testing.assert_close(
        gradient(algo, with_weights(batch, 0.5, 3.0, 0.25)), together, rtol=1e-3, atol=1e-5 * scale
    )
    torch.testing.assert_close(gradient(algo, batch), sum(each), rtol=1e-3, atol=1e-5 * scale)


@pytest.mark.parametrize("algo", ALGOS)
def test_the_actor_and_the_temperature_take_rows_as_they_come(algo):
    """With weights of 0 the critics stay as they are, and the actor moves as it would against them."""
    batch = minibatch(rows=8)
    made = learner(algo)
    before = made.state_dict()
    made.update(with_weights(batch, *[0.0] * 8))

    after = made.state_dict()
    parameters = {name for name, _ in made._rule._critic.named_parameters()}
    for name in parameters:
        torch.testing.assert_close(after["critic"][name], before["critic"][name], rtol=0, atol=1e-6)
    assert not same_state(before["policy"], after["policy"])


@pytest.mark.parametrize("algo", ALGOS)
def test_the_errors_of_rows_come_with_weights_only_and_read_nothing_back(algo):
    made = learner(algo)
    told = made.update(minibatch(rows=8))
    assert made.td_errors is None

    batch = with_weights(minibatch(rows=8), *[0.5] * 8)
    with NoScalarReads():
        also_told = made.update(batch)

    assert also_told.keys() == told.keys()
    assert made.td_errors.shape == (8,)
    assert made.td_errors.dtype == torch.float32
    assert not made.td_errors.requires_grad
    assert (made.td_errors >= 0).all()
    kept = made.td_errors
    values = kept.tolist()
    made.update(batch)
    assert kept.tolist() == values
    made.update(minibatch(rows=8))
    assert made.td_errors is None


@pytest.mark.parametrize("algo", ALGOS)
def test_errors_are_what_the_critics_thought_before_the_step_whatever_the_weights(algo):
    one, other = learner(algo), learner(algo)
    one.update(with_weights(minibatch(rows=8), *[1.0] * 8))
    other.update(with_weights(minibatch(rows=8), *[0.01, 5.0] * 4))

    assert torch.equal(one.td_errors, other.td_errors)


@pytest.mark.parametrize("algo", ALGOS)
def test_a_row_that_surprises_is_drawn_more_often_from_then_on(algo):
    """Draw, weigh, update, and the errors back, as a learner with prioritised replay does it."""
    rows, made, priorities = minibatch(rows=64), learner(algo), Priorities(64, 0.6)
    rows.reward[41] = 50.0
    numbers, rng = np.arange(64), np.random.default_rng(0)
    priorities.add(numbers, numbers)
    for _ in range(8):
        cells, serials, weights = priorities.draw(rng.random(33), 0.4)
        made.update(dataclasses.replace(some(rows, torch.from_numpy(cells)), weights=torch.from_numpy(weights)))
        assert priorities.update(cells, serials, made.td_errors.numpy()) == 0

    counts = np.bincount(priorities.draw(rng.random(6401), 0.4)[0], minlength=64)
    assert counts[41] > 150  # 100 each if they were drawn alike


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_the_mean_square_of_the_errors_bounds_the_loss_from_below(algo):
    made, half = learner(algo), {"sac": 1.0, "td3": 2.0}[algo]
    loss = made.update(with_weights(minibatch(rows=32), *[1.0] * 32))["critic_loss"]

    assert made.td_errors.square().mean() <= loss / half  # mean over critics: equal where both are as wrong
    assert made.td_errors.square().mean() >= loss / half / 2


@pytest.mark.parametrize("algo", ALGOS)
def test_weights_of_1_are_no_weights(algo):
    one, none = learner(algo), learner(algo)
    for seed in range(3):
        weighted_told = one.update(with_weights(minibatch(seed), *[1.0] * 32))
        told = none.update(minibatch(seed))

        for name in told:
            assert weighted_told[name].item() == pytest.approx(told[name].item(), rel=1e-4, abs=1e-6)


def test_the_twin_loss_weighs_row_by_row():
    q, target = torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([2.0, 1.0])

    # Errors -1 and 1 of the first row, 4 and 4 of the second.
    assert twin_loss(q, target).item() == (1 + 1 + 16 + 16) / 4
    assert twin_loss(q, target, torch.tensor([2.0, 0.5])).item() == (2 * 1 + 2 * 1 + 0.5 * 16 + 0.5 * 16) / 4
    assert absolute_errors(q, target, torch.ones(2))[TD_ERRORS].tolist() == [1.0, 4.0]
    assert absolute_errors(q, target, None) == {}


def test_without_weights_losses_are_the_same_tensor():
    losses = torch.ones(2, 3)

    assert weighted(losses, None) is losses
    assert weighted(losses, torch.tensor([1.0, 2.0, 3.0])).tolist() == [[1.0, 2.0, 3.0]] * 2


def test_a_divergence_is_0_for_the_right_distribution_and_worked_out_by_hand_for_others():
    target = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.5]])
    logits = torch.log(torch.stack([target + 1e-30, torch.tensor([[0.25, 0.25, 0.5]]).expand(3, 3)]))
    told = divergences(cross_entropy(logits, target), target, torch.ones(3))[TD_ERRORS]

    # Both critics' mean; the first one is right.
    by_hand = [0.5 * torch.tensor(2.0).log(), 0.5 * torch.tensor(2.0).log()]
    by_hand += [0.5 * (0.2 * torch.tensor(0.8).log() + 0.3 * torch.tensor(1.2).log())]
    torch.testing.assert_close(told, torch.stack(by_hand))
    assert divergences(cross_entropy(logits, target), target, None) == {}


def test_a_projected_target_has_a_finite_divergence():
    support = Support(-1.0, 1.0, 5)
    target = project(torch.full((2, 4, 5), 0.2), torch.full((4,), 9.0), torch.zeros(4), support)  # all on one atom
    told = divergences(cross_entropy(torch.zeros(2, 4, 5), target), target, torch.ones(4))[TD_ERRORS]

    torch.testing.assert_close(told, torch.full((4,), 5.0).log())


def test_weights_stay_with_their_rows_in_the_mirror():
    batch = with_weights(minibatch(rows=4), 0.1, 0.2, 0.3, 0.4)
    seen = HalfMirrored(Mirror(obs=in_place(1, -1, 1), action=in_place(-1, -1)), CPU)(batch)

    assert seen.weights is batch.weights
    assert torch.equal(seen.reward, batch.reward)


@pytest.mark.skipif(compiled.no_compiler(CPU) is not None, reason="there is no C++ compiler")
@pytest.mark.parametrize("algo", ["td3", "fasttd3"])  # one of either kind of critic
def test_compiled_updates_take_weights_and_tell_errors_as_eager_ones_do(algo):
    cfg = dataclasses.replace(SMALL, hidden=(16,))
    said: list[str] = []
    one, eager = learner(algo, cfg, compute=Compute(compiled=True, say=said.append)), learner(algo, cfg)
    g = torch.Generator().manual_seed(0)
    for seed in range(3):
        batch = dataclasses.replace(minibatch(seed, env=env_spec()), weights=torch.rand(32, generator=g))
        got, wanted = one.update(batch), eager.update(batch)

        torch.testing.assert_close(one.td_errors, eager.td_errors, rtol=1e-3, atol=1e-5)
        assert got["critic_loss"].item() == pytest.approx(wanted["critic_loss"].item(), rel=1e-4)
    assert len(said) == 1, said
