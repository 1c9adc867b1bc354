import torch

from unilab.nets.actor import TanhActor
from unilab.nets.encoder import Encoder, EncodingActor
from unilab.nets.norm_actor import NormGaussianActor

ROWS = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_it_is_linear_layer_norm_silu_and_at_last_linear_tanh():
    encoder = Encoder(4, (6, 3), seeded())
    weights = {name: value.double() for name, value in encoder.state_dict().items()}
    assert {name: tuple(value.shape) for name, value in weights.items()} == {
        "net.0.weight": (6, 4),
        "net.0.bias": (6,),
        "net.1.weight": (6,),
        "net.1.bias": (6,),
        "net.3.weight": (3, 6),
        "net.3.bias": (3,),
    }
    x = ROWS[:, 3:].double()

    h = x @ weights["net.0.weight"].T + weights["net.0.bias"]
    h = (h - h.mean(1, keepdim=True)) / (h.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    h = h * torch.sigmoid(h)
    expected = torch.tanh(h @ weights["net.3.weight"].T + weights["net.3.bias"])

    torch.testing.assert_close(encoder(ROWS[:, 3:]).double(), expected, rtol=0.0, atol=1e-6)


def test_one_width_is_one_layer_and_its_tanh():
    encoder = Encoder(4, (2,), seeded())

    assert list(encoder.state_dict()) == ["net.0.weight", "net.0.bias"]
    torch.testing.assert_close(encoder(ROWS[:, 3:]), encoder.net(ROWS[:, 3:]).tanh())


def test_the_actor_gets_obs_and_the_latent_side_by_side():
    encoder, actor = Encoder(4, (6, 2), seeded()), TanhActor(5, 2, (8,), seeded())
    both = torch.cat((ROWS[:, :3], encoder(ROWS[:, 3:])), 1)
    encoding = EncodingActor(3, encoder, actor)

    assert torch.equal(encoding(ROWS), actor(both))
    assert torch.equal(encoding.mode(ROWS), actor.mode(both))


def test_batch_statistics_are_of_what_the_actor_gets():
    encoder = Encoder(4, (6, 2), seeded())
    actors = [NormGaussianActor(5, 2, (8,), seeded(), momentum=0.9, warmup=0) for _ in range(2)]
    both = torch.cat((ROWS[:, :3], encoder(ROWS[:, 3:])), 1)

    got, wanted = EncodingActor(3, encoder, actors[0]).learn(ROWS), actors[1].learn(both)

    assert all(torch.equal(*pair) for pair in zip(got, wanted, strict=True))
    assert all(torch.equal(*pair) for pair in zip(actors[0].buffers(), actors[1].buffers(), strict=True))
