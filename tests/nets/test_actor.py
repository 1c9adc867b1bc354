import torch

from unilab.nets.actor import GaussianActor, NormalizedActor, TanhActor
from unilab.nets.normalizer import NoNorm, RunningNorm
from unilab.nets.sight import SeesObs

OBS = torch.tensor([[0.5, -0.5, 2.0], [1.0, 0.0, -1.0]])


def gaussian(bias: list[float]) -> GaussianActor:
    """An actor whose heads are ``bias`` whatever the observation: two means, then two log_stds."""
    actor = GaussianActor(3, 2, (4,), torch.Generator().manual_seed(0))
    with torch.no_grad():
        actor.net[-1].weight.zero_()
        actor.net[-1].bias.copy_(torch.tensor(bias))
    return actor


def test_log_std_is_clamped_and_the_mean_is_not():
    mean, log_std = gaussian([100.0, -100.0, -50.0, 50.0])(OBS)

    assert mean.tolist() == [[100.0, -100.0]] * 2
    assert log_std.tolist() == [[-20.0, 2.0]] * 2


def test_the_mode_of_a_gaussian_actor_is_tanh_of_its_mean():
    action = gaussian([0.5, -1.0, 0.0, 0.0]).mode(OBS)

    torch.testing.assert_close(action, torch.tensor([[0.5, -1.0]] * 2).tanh())


def test_a_tanh_actor_stays_within_one_and_is_its_own_mode():
    actor = TanhActor(3, 2, (4,), torch.Generator().manual_seed(0))
    with torch.no_grad():
        actor.net[-1].weight.mul_(1e4)

    action = actor(OBS)

    assert action.abs().max() <= 1.0
    assert torch.equal(actor.mode(OBS), action)


def test_a_normalized_actor_acts_on_normalised_observations():
    norm, actor = RunningNorm(3), TanhActor(3, 2, (4,), torch.Generator().manual_seed(0))
    norm.update(torch.tensor([[0.0, 1.0, 5.0], [2.0, 1.0, -5.0]]))

    assert torch.equal(NormalizedActor(norm, actor, SeesObs(3))(OBS), actor(norm(OBS)))
    assert not torch.equal(NormalizedActor(norm, actor, SeesObs(3))(OBS), actor(OBS))


def test_a_normalized_actor_without_normaliser_publishes_the_actor_alone():
    actor = TanhActor(3, 2, (4,), torch.Generator().manual_seed(0))

    names = NormalizedActor(NoNorm(), actor, SeesObs(3)).state_dict().keys()

    assert list(names) == [f"actor.{name}" for name in actor.state_dict()]
