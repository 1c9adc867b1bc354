"""What only critics see reaches the actor through a latent, and only so."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from separate_nets import actor_from, close, critics_from, move_towards, parameters, q_values
from torch.nn.functional import layer_norm, silu
from toy_learners import ALGOS, SMALL, env_spec, flat, learner, minibatch, policy

from unilab.algos.base import LearnerConfig
from unilab.algos.noise import learner_generator
from unilab.algos.symmetry import HalfMirrored
from unilab.errors import ConfigError
from unilab.mirror import Mirror, in_place
from unilab.nets.encoder import Encoder
from unilab.spec import Minibatch

ENV = env_spec(critic_dim=7)  # 3 columns of obs, 4 behind them
CFG = LearnerConfig(hidden=(16, 12), learning_rate=1e-3, gamma=0.95, tau=0.1, privileged_encoder=(8, 5, 2))
ENCODED = dataclasses.replace(SMALL, norm_obs=True, privileged_encoder=(8, 2))


def trained(algo, cfg=ENCODED, updates=3, env=ENV):
    made = learner(algo, cfg, env=env)
    for seed in range(updates):
        rows = minibatch(seed, env=env)
        made.observe(rows.obs, rows.critic_obs)
        made.update(rows)
    return made


def encoder_of(made) -> dict[str, torch.Tensor]:
    state = made.policy_module.state_dict()
    return {name: value.clone() for name, value in state.items() if name.startswith("actor.encoder.")}


@pytest.mark.parametrize("algo", ALGOS)
def test_the_encoder_learns_from_the_actors_loss_and_from_nothing_else(algo):
    cfg = dataclasses.replace(ENCODED, policy_delay=3)
    made = trained(algo, cfg, updates=3)  # FastSAC's actor begins with heads of 0, which let no gradient through
    first = encoder_of(made)
    for seed in (3, 4):  # critics only
        made.update(minibatch(seed, env=ENV))
    before = encoder_of(made)
    made.update(minibatch(5, env=ENV))
    after = encoder_of(made)

    assert all(torch.equal(first[name], before[name]) for name in first)
    assert all((after[name] != before[name]).any() for name in before)


@pytest.mark.parametrize("algo", ALGOS)
def test_an_action_depends_on_the_privileged_columns_only_through_the_latent(algo):
    made, rows = trained(algo), minibatch(9, env=ENV)
    acting = policy(algo, ENCODED, env=ENV)
    acting.module.load_state_dict(made.policy_module.state_dict())
    other = {**groups(rows), "critic": rows.critic_obs.flip(0).numpy().copy()}
    same_tail = np.concatenate([np.zeros((32, 3), np.float32), groups(rows)["critic"][:, 3:]], axis=1)

    actions = acting.act(groups(rows))
    assert (acting.act(other) != actions).any()
    np.testing.assert_array_equal(acting.act({**groups(rows), "critic": same_tail}), actions)
    with torch.no_grad():  # the same latent whatever goes in
        last = [module for module in acting.module.actor.encoder.net if isinstance(module, torch.nn.Linear)][-1]
        last.weight.zero_()
    np.testing.assert_array_equal(acting.act(other), acting.act(groups(rows)))


def groups(rows: Minibatch) -> dict[str, np.ndarray]:
    return {"obs": rows.obs.numpy(), "critic": rows.critic_obs.numpy()}


@pytest.mark.parametrize("algo", ALGOS)
def test_a_collector_acts_as_the_learners_module_does_on_both_groups_normalised(algo):
    made, rows = trained(algo), minibatch(9, env=ENV)
    acting = policy(algo, ENCODED, env=ENV)
    names = {name: value.shape for name, value in acting.module.state_dict().items()}
    assert names == {name: value.shape for name, value in made.policy_module.state_dict().items()}
    assert names["norm.mean"] == (7,)
    acting.module.load_state_dict(made.policy_module.state_dict())

    with torch.no_grad():
        seen = torch.cat((rows.obs, rows.critic_obs[:, 3:]), 1)
        expected = made.policy_module.actor.mode((seen - seen_mean(3)) / (seen_std(3) + 1e-2)).numpy()

    np.testing.assert_allclose(acting.act(groups(rows)), expected, atol=1e-5)
    assert (acting.explore(groups(rows), np.zeros(32, np.bool_)) != acting.act(groups(rows))).any()


def seen_so_far(updates: int) -> torch.Tensor:
    batches = [minibatch(seed, env=ENV) for seed in range(updates)]
    return torch.cat([torch.cat((rows.obs, rows.critic_obs[:, 3:]), 1) for rows in batches])


def seen_mean(updates: int) -> torch.Tensor:
    return seen_so_far(updates).mean(0)


def seen_std(updates: int) -> torch.Tensor:
    return seen_so_far(updates).std(0, correction=0)


@pytest.mark.parametrize("algo", ALGOS)
def test_its_widths_change_what_is_learnt_and_the_critics_still_see_everything(algo):
    wide, narrow = (trained(algo, dataclasses.replace(ENCODED, privileged_encoder=widths)) for widths in ((8, 2), (3,)))
    without = trained(algo, dataclasses.replace(ENCODED, privileged_encoder=()))
    rows = minibatch(9, env=ENV)

    assert len({made.q_values(rows.critic_obs, rows.action).sum().item() for made in (wide, narrow, without)}) == 3
    assert wide.state_dict()["critic_norm"]["mean"].shape == (7,)
    assert wide.facts()["privileged encoder"] == "8x2"
    assert "privileged encoder" not in without.facts()
    assert not [name for name in flat(without.state_dict()) if "encoder" in name]


@pytest.mark.parametrize("critic_dim", [0, 3])
@pytest.mark.parametrize("make", [learner, policy])
def test_it_is_refused_where_the_critics_see_no_more_than_the_actor(make, critic_dim):
    with pytest.raises(ConfigError, match=r"privileged_encoder=\(8, 2\) would have no effect with toy.*--critic-keys"):
        make("sac", ENCODED, env=env_spec(critic_dim=critic_dim))


def test_a_width_of_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"privileged_encoder=\(8, 0\)"):
        LearnerConfig(privileged_encoder=(8, 0))


def test_in_the_mirror_the_privileged_columns_are_mirrored_too():
    signs = (1, -1, 1, -1, 1, -1, 1)
    mirror = Mirror(obs=in_place(1, -1, 1), action=in_place(1, -1), critic=in_place(*signs))
    made, rows = learner("sac", ENCODED, env=ENV), minibatch(rows=4, env=ENV)
    seen = made._inputs(HalfMirrored(mirror, torch.device("cpu"))(rows))
    plain = torch.cat((rows.obs, rows.critic_obs[:, 3:]), 1)

    assert torch.equal(seen.obs[:2], plain[:2])
    assert torch.equal(seen.obs[2:], plain[2:] * torch.tensor(signs))


# ------------------------------------------------------------ slow references


class Slow:
    """Networks of their own in float64 and torch's Adam; what the actor sees is put together here once more."""

    def __init__(self, state, cfg: LearnerConfig) -> None:
        self.cfg = cfg
        self.actor = actor_from(state["policy"], "actor.actor.net.")
        self.encoder = {
            name.removeprefix("actor.encoder.net."): value.double().clone().requires_grad_()
            for name, value in state["policy"].items()
            if name.startswith("actor.encoder.")
        }
        self.critics = critics_from(state["critic"])
        self.targets = copy.deepcopy(self.critics)
        self.actor_adam = torch.optim.Adam([*self.actor.parameters(), *self.encoder.values()], lr=cfg.learning_rate)
        self.critic_adam = torch.optim.Adam(parameters(self.critics), lr=cfg.learning_rate)

    def head(self, obs, critic_obs, *, actor=None, encoder=None):
        """What the actor's last layer gives for obs [B, 3] and the critic group [B, 7]."""
        w, x = encoder or self.encoder, critic_obs.double()[:, 3:]
        for layer in (0, 3):
            x = x @ w[f"{layer}.weight"].T + w[f"{layer}.bias"]
            x = silu(layer_norm(x, x.shape[1:], w[f"{layer + 1}.weight"], w[f"{layer + 1}.bias"]))
        latent = torch.tanh(x @ w["6.weight"].T + w["6.bias"])
        return (actor or self.actor)(torch.cat((obs.double(), latent), 1))

    def sample(self, obs, critic_obs, noise):
        mean, log_std = self.head(obs, critic_obs).chunk(2, -1)
        raw = mean + log_std.exp() * noise.double()
        log_prob = torch.distributions.Normal(mean, log_std.exp()).log_prob(raw) - torch.log(1 - raw.tanh() ** 2)
        return raw.tanh(), log_prob.sum(1)

    def learn_critic(self, rows: Minibatch, next_value, factor: float) -> float:
        target = rows.reward.double() + (1 - rows.terminated.double()) * self.cfg.gamma * next_value
        values = q_values(self.critics, rows.critic_obs.double(), rows.action.double())
        loss = factor * sum((q - target).square().mean() for q in values)
        step(self.critic_adam, loss)
        return loss.item()

    def agrees(self, state) -> bool:
        ours = {name: state["policy"][f"actor.encoder.net.{name}"].double() for name in self.encoder}
        close_encoder = all(torch.allclose(ours[k], v, rtol=0.0, atol=1e-5) for k, v in self.encoder.items())
        return close_encoder and close(actor_from(state["policy"], "actor.actor.net."), self.actor, 1e-5)


def step(optimizer, loss) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def test_sac_with_it_agrees_with_a_slow_reference():
    fast = learner("sac", CFG, env=ENV, ent_coef=0.3)
    slow, generator = Slow(fast.state_dict(), CFG), learner_generator(0, torch.device("cpu"))

    for seed in range(3):
        rows = minibatch(seed, env=ENV)
        metrics = fast.update(rows)
        noise = torch.randn(2, 32, 2, generator=generator)
        with torch.no_grad():
            pi, log_pi = slow.sample(rows.next_obs, rows.next_critic_obs, noise[1])
            next_value = torch.min(*q_values(slow.targets, rows.next_critic_obs.double(), pi)) - 0.3 * log_pi
        critic_loss = slow.learn_critic(rows, next_value, 0.5)
        pi, log_pi = slow.sample(rows.obs, rows.critic_obs, noise[0])
        actor_loss = (0.3 * log_pi - torch.min(*q_values(slow.critics, rows.critic_obs.double(), pi))).mean()
        step(slow.actor_adam, actor_loss)
        move_towards(slow.targets, slow.critics, CFG.tau)

        assert metrics["critic_loss"].item() == pytest.approx(critic_loss, rel=1e-4)
        assert metrics["actor_loss"].item() == pytest.approx(actor_loss.item(), rel=1e-4)

    assert slow.agrees(fast.state_dict())


def test_td3_with_it_agrees_with_a_slow_reference_whose_target_actor_has_an_encoder_of_its_own():
    fast = learner("td3", CFG, env=ENV, target_noise=0.5, noise_clip=0.4)
    slow, generator = Slow(fast.state_dict(), CFG), learner_generator(0, torch.device("cpu"))
    target_actor, target_encoder = copy.deepcopy(slow.actor), copy.deepcopy(slow.encoder)

    for seed in range(3):
        rows = minibatch(seed, env=ENV)
        metrics = fast.update(rows)
        with torch.no_grad():
            jitter = torch.clip(torch.randn(1, 32, 2, generator=generator)[0].double() * 0.5, -0.4, 0.4)
            head = slow.head(rows.next_obs, rows.next_critic_obs, actor=target_actor, encoder=target_encoder)
            next_action = torch.clip(head.tanh() + jitter, -1, 1)
            next_value = torch.min(*q_values(slow.targets, rows.next_critic_obs.double(), next_action))
        critic_loss = slow.learn_critic(rows, next_value, 1.0)
        pi = slow.head(rows.obs, rows.critic_obs).tanh()
        actor_loss = -q_values(slow.critics, rows.critic_obs.double(), pi)[0].mean()
        step(slow.actor_adam, actor_loss)
        move_towards([target_actor, *slow.targets], [slow.actor, *slow.critics], CFG.tau)
        with torch.no_grad():
            for name, value in target_encoder.items():
                value.lerp_(slow.encoder[name], CFG.tau)

        assert metrics["critic_loss"].item() == pytest.approx(critic_loss, rel=1e-4)
        assert metrics["actor_loss"].item() == pytest.approx(actor_loss.item(), rel=1e-4)

    assert slow.agrees(fast.state_dict())
    assert isinstance(fast.policy_module.actor.encoder, Encoder)
