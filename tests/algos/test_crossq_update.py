"""CrossQ against a slow reference: separate networks, batch renormalisation as the paper writes it, float64."""

import dataclasses

import pytest
import torch
from test_sac_update import noises
from torch import nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution
from toy_learners import flat, learner, minibatch

from unilab.algos.base import LearnerConfig

CFG = LearnerConfig(hidden=(16, 12), critic_hidden=(14, 10), learning_rate=1e-3, gamma=0.95, adam_betas=(0.5, 0.999))


class SlowNorm:
    """Algorithm 1 of arXiv:1702.03275, switched on after ``warmup`` batches."""

    def __init__(self, state, member, *, momentum, warmup) -> None:
        pick = (lambda t: t[member, 0]) if member is not None else (lambda t: t[0])
        self.gamma, self.beta = (nn.Parameter(pick(state[key]).double().clone()) for key in ("weight", "bias"))
        self.mean, self.var = (pick(state[key]).double().clone() for key in ("mean", "var"))
        self.batches, self.momentum, self.warmup = int(state["batches"]), momentum, warmup

    def __call__(self, x, *, train):
        if not train:
            return self.gamma * (x - self.mean) / torch.sqrt(self.var + 1e-3) + self.beta
        mu, sigma = x.mean(0), torch.sqrt(x.var(0, correction=0) + 1e-3)
        r, d = torch.ones_like(mu), torch.zeros_like(mu)
        if self.batches >= self.warmup:
            running = torch.sqrt(self.var + 1e-3)
            r = (sigma.detach() / running).clamp(1 / 3, 3)
            d = ((mu.detach() - self.mean) / running).clamp(-5, 5)
        self.mean = self.momentum * self.mean + (1 - self.momentum) * mu.detach()
        self.var = self.momentum * self.var + (1 - self.momentum) * x.detach().var(0, correction=0)
        self.batches += 1
        return self.gamma * ((x - mu) / sigma * r + d) + self.beta


class SlowNet:
    """Norm, then linear, ReLU and norm for each hidden layer, then a linear head."""

    def __init__(self, state, member=None, **norm_options) -> None:
        parts: dict[str, dict[str, torch.Tensor]] = {}
        for key, value in state.items():
            name, _, leaf = key.rpartition(".")
            parts.setdefault(name, {})[leaf] = value
        layers = sum(name.startswith("body.linears.") for name in parts)
        self.linears = [self._linear(parts[f"body.linears.{i}"], member) for i in range(layers)]
        self.head = self._linear(parts["head"], member)
        names = ["body.first", *(f"body.norms.{i}" for i in range(layers))]
        self.norms = [SlowNorm(parts[name], member, **norm_options) for name in names]

    def _linear(self, state, member):
        weight, bias = state["weight"], state["bias"]
        if member is not None:
            weight, bias = weight[member], bias[member].flatten()
            weight = weight.T if weight.ndim == 2 else weight[None]
        layer = nn.Linear(weight.shape[1], weight.shape[0]).double()
        layer.weight.data, layer.bias.data = (
            weight.double().clone().view(len(bias), -1),
            bias.double().clone(),
        )
        return layer

    def __call__(self, x, *, train):
        x = self.norms[0](x, train=train)
        for linear, norm in zip(self.linears, self.norms[1:], strict=True):
            x = norm(linear(x).relu(), train=train)
        return self.head(x)

    def parameters(self):
        for layer in (*self.linears, self.head):
            yield from layer.parameters()
        for norm in self.norms:
            yield from (norm.gamma, norm.beta)

    def numbers(self):
        return torch.cat([t.detach().flatten() for t in self.parameters()] + [n.mean for n in self.norms])


class SlowCrossQ:
    def __init__(self, state, cfg, *, target_entropy, **norm_options) -> None:
        actor = {key.removeprefix("actor."): value for key, value in state["policy"].items()}
        self.actor = SlowNet(actor, **norm_options)
        self.critics = [SlowNet(state["critic"], member, **norm_options) for member in range(2)]
        self.log_alpha = state["temperature"]["log_alpha"].double().clone().requires_grad_()
        self.cfg, self.target_entropy = cfg, target_entropy
        both = [parameter for critic in self.critics for parameter in critic.parameters()]
        adam = {"lr": cfg.learning_rate, "betas": cfg.adam_betas}
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), **adam)
        self.critic_adam = torch.optim.Adam(both, **adam)
        self.alpha_adam = torch.optim.Adam([self.log_alpha], **adam)

    def sample(self, obs, noise, *, train):
        mean, log_std = self.actor(obs, train=train).chunk(2, -1)
        std = log_std.clamp(-20, 2).exp()
        distribution = TransformedDistribution(Independent(Normal(mean, std), 1), [TanhTransform(cache_size=1)])
        action = distribution.transforms[0](mean + std * noise)
        return action, distribution.log_prob(action)

    def update(self, rows, noise, next_noise):
        obs, action, next_obs = rows.obs.double(), rows.action.double(), rows.next_obs.double()
        pi, log_pi = self.sample(obs, noise.double(), train=True)
        alpha_loss = -(self.log_alpha * (log_pi + self.target_entropy).detach()).mean()
        self.step(self.alpha_adam, alpha_loss)
        alpha = self.log_alpha.exp().detach()

        with torch.no_grad():
            next_pi, next_log_pi = self.sample(next_obs, next_noise.double(), train=False)
        joint = torch.cat((torch.cat((obs, action), 1), torch.cat((next_obs, next_pi), 1)))
        values = [critic(joint, train=True)[:, 0] for critic in self.critics]
        next_q = torch.min(*(v[len(obs) :].detach() for v in values)) - alpha * next_log_pi
        target = rows.reward.double() + (1 - rows.terminated.double()) * self.cfg.gamma * next_q
        critic_loss = 0.5 * sum((v[: len(obs)] - target).square().mean() for v in values)
        q_mean = torch.stack([v[: len(obs)] for v in values]).mean()
        self.step(self.critic_adam, critic_loss)

        q_pi = [critic(torch.cat((obs, pi), 1), train=False)[:, 0] for critic in self.critics]
        actor_loss = (alpha * log_pi - torch.min(*q_pi)).mean()
        self.step(self.actor_adam, actor_loss)
        return {
            "actor_loss": actor_loss.item(),
            "critic_loss": critic_loss.item(),
            "ent_coef": alpha.item(),
            "ent_coef_loss": alpha_loss.item(),
            "learning_rate": self.cfg.learning_rate,
            "q_mean": q_mean.item(),
        }

    def step(self, optimizer, loss) -> None:
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


@pytest.mark.parametrize("warmup", [100, 2], ids=["within the warm-up", "renormalised from the third update on"])
def test_four_updates_agree_with_a_slow_reference_on_the_same_noise(warmup):
    fast = learner("crossq", CFG, ent_coef="auto_0.3", target_entropy=-1.5, norm_momentum=0.8, renorm_warmup=warmup)
    slow = SlowCrossQ(fast.state_dict(), CFG, target_entropy=-1.5, momentum=0.8, warmup=warmup)

    for seed, noise in enumerate(noises(4, rows=32, action_dim=2)):
        metrics = fast.update(minibatch(seed))
        expected = slow.update(minibatch(seed), *noise)
        assert {k: v.item() for k, v in metrics.items()} == pytest.approx(expected, rel=1e-4, abs=1e-5)

    again = SlowCrossQ(fast.state_dict(), CFG, target_entropy=-1.5, momentum=0.8, warmup=warmup)
    for ours, theirs in zip([again.actor, *again.critics], [slow.actor, *slow.critics], strict=True):
        torch.testing.assert_close(ours.numbers(), theirs.numbers(), rtol=0.0, atol=2e-5)


def test_the_successors_move_the_statistics_and_the_values_of_the_states():
    rows = minibatch()
    shifted = dataclasses.replace(rows, next_obs=rows.next_obs + 5.0, next_critic_obs=rows.next_critic_obs + 5.0)

    one, other = learner("crossq").update(rows), learner("crossq").update(shifted)

    assert one["q_mean"] != other["q_mean"]


def test_there_is_no_target_network_and_the_statistics_are_published():
    state = learner("crossq").state_dict()

    assert not any("target" in name for name in state)
    assert {"actor.body.first.mean", "actor.body.norms.0.var"} <= state["policy"].keys()


def test_actor_and_its_statistics_move_every_policy_delay_updates():
    crossq, moved = learner("crossq", LearnerConfig(hidden=(16,), policy_delay=3)), []

    for seed in range(7):
        before = flat(crossq.state_dict())
        metrics = crossq.update(minibatch(seed))
        after = flat(crossq.state_dict())
        changed = {key.split(".")[0] for key in after if not torch.equal(after[key], before[key])}
        assert {"critic", "critic_optimizer"} <= changed
        assert ("policy" in changed) == ("temperature" in changed) == ("actor_loss" in metrics)
        moved.append("policy" in changed)

    assert moved == [False, False, True, False, False, True, False]


def test_values_asked_for_come_from_the_running_statistics():
    crossq, rows = learner("crossq"), minibatch()
    crossq.update(rows)

    few, many = crossq.q_values(rows.obs[:3], rows.action[:3]), crossq.q_values(rows.obs, rows.action)

    torch.testing.assert_close(few, many[:, :3])
