"""FlashSAC against a slow reference: separate networks, a projection atom by atom, float64."""

import copy
import math

import pytest
import torch
from test_sac_update import noises
from torch import nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution
from toy_learners import flat, learner, minibatch

from unilab.algos.base import LearnerConfig
from unilab.algos.flashsac import gaussian_entropy
from unilab.spec import ReturnStats

CFG = LearnerConfig(
    hidden=(8, 8), critic_hidden=(6, 6), learning_rate=1e-3, gamma=0.95, tau=0.1, norm_reward=True, policy_delay=1
)
OPTIONS = {"ent_coef": "auto_0.3", "target_std": 0.4, "atoms": 11, "value_bound": 3.0}


class SlowNet:
    """One network, from the state of one member, as the paper draws it."""

    def __init__(self, state, member=None) -> None:
        chosen = {k: (v if member is None else v[member]) if v.ndim else v for k, v in state.items()}
        self.stats = {k: v.double().clone() for k, v in chosen.items() if k.endswith(("norm.mean", "norm.var"))}
        self.weights = {
            k: nn.Parameter(v.double().clone())
            for k, v in chosen.items()
            if k not in self.stats and not k.endswith("batches")
        }

    def norm(self, name, x, train):
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        if not train:
            return (x - self.stats[f"{name}.mean"]) / torch.sqrt(self.stats[f"{name}.var"] + 1e-5) * weight + bias
        mean, var = x.mean(0, keepdim=True), x.var(0, correction=0, keepdim=True)
        self.stats[f"{name}.mean"] = 0.99 * self.stats[f"{name}.mean"] + 0.01 * mean.detach()
        self.stats[f"{name}.var"] = 0.99 * self.stats[f"{name}.var"] + 0.01 * var.detach()
        return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias

    def features(self, x, train):
        x = self.norm("body.input_norm", x, train) @ self.weights["body.embedding.weight"]
        for i in range(2):
            name = f"body.blocks.{i}"
            inner = self.norm(f"{name}.inner_norm", x @ self.weights[f"{name}.widen.weight"], train).relu()
            x = x + self.norm(f"{name}.outer_norm", inner @ self.weights[f"{name}.narrow.weight"], train).relu()
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weights["body.scale"]

    def head(self, name, x):
        return x @ self.weights[f"{name}.linear.weight"] + self.weights[f"{name}.bias"]

    @torch.no_grad()
    def project(self) -> None:
        for key, value in self.weights.items():
            if key.endswith("norm.weight"):
                bias = self.weights[key.replace("weight", "bias")]
                factor = math.sqrt(value.numel()) / torch.sqrt((value**2 + bias**2).sum() + 1e-8)
                value *= factor
                bias *= factor
            elif key == "body.scale":
                value *= math.sqrt(value.numel()) / torch.sqrt((value**2).sum() + 1e-8)
            elif key.endswith("weight"):
                value /= value.norm(dim=0, keepdim=True)

    def numbers(self):
        return torch.cat([t.detach().flatten() for t in (*self.weights.values(), *self.stats.values())])


class SlowFlashSAC:
    def __init__(self, state, cfg) -> None:
        actor = {key.removeprefix("actor."): value for key, value in state["policy"].items()}
        self.actor = SlowNet(actor)
        self.critics = [SlowNet(state["critic"], member) for member in range(2)]
        self.targets = [SlowNet(state["target_critic"], member) for member in range(2)]
        self.log_alpha = state["temperature"]["log_alpha"].double().clone().requires_grad_()
        self.scale = state["reward_scale"]["scale"].double()
        self.cfg = cfg
        both = [parameter for critic in self.critics for parameter in critic.weights.values()]
        self.actor_adam = torch.optim.Adam(self.actor.weights.values(), lr=cfg.learning_rate)
        self.critic_adam = torch.optim.Adam(both, lr=cfg.learning_rate)
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=cfg.learning_rate)
        self.atoms = torch.linspace(-3, 3, 11, dtype=torch.float64)

    def gaussian(self, obs, train):
        x = self.actor.features(obs, train)
        return self.actor.head("mean", x), -10 + 12 * 0.5 * (1 + self.actor.head("log_std", x).tanh())

    def sample(self, mean, log_std, noise):
        std = log_std.exp()
        distribution = TransformedDistribution(Independent(Normal(mean, std), 1), [TanhTransform(cache_size=1)])
        action = distribution.transforms[0](mean + std * noise)
        return action, distribution.log_prob(action)

    def probabilities(self, net, obs, action, train):
        return net.head("head", net.features(torch.cat((obs, action), 1), train)).softmax(-1)

    def projected(self, probabilities, reward, discount):
        out = torch.zeros_like(probabilities)
        for row in range(len(out)):
            for p, z in zip(probabilities[row], self.atoms, strict=True):
                where = float(((reward[row] + discount[row] * z).clamp(-3, 3) + 3) / 0.6)
                below = min(math.floor(where), 9)
                out[row, below] += p * (below + 1 - where)
                out[row, below + 1] += p * (where - below)
        return out

    def update(self, rows, noise, next_noise):
        obs, action, next_obs = rows.obs.double(), rows.action.double(), rows.next_obs.double()
        alpha = self.log_alpha.exp().detach()
        mean, log_std = self.gaussian(torch.cat((obs, next_obs)), train=True)
        pi, log_pi = self.sample(mean[: len(obs)], log_std[: len(obs)], noise.double())
        q_pi = [(self.probabilities(critic, obs, pi, train=False) * self.atoms).sum(-1) for critic in self.critics]
        actor_loss = (alpha * log_pi - torch.min(*q_pi)).mean()
        self.step(self.actor_adam, actor_loss)
        self.actor.project()
        entropy = 0.5 * 2 * math.log(2 * math.pi * math.e * 0.4**2)
        alpha_loss = -(self.log_alpha * (log_pi + entropy).detach()).mean()
        self.step(self.alpha_adam, alpha_loss)
        alpha = self.log_alpha.exp().detach()

        with torch.no_grad():
            next_pi, next_log_pi = self.sample(*self.gaussian(next_obs, train=False), next_noise.double())
            both, actions = torch.cat((obs, next_obs)), torch.cat((action, next_pi))
            one, two = (self.probabilities(net, both, actions, train=True)[len(obs) :] for net in self.targets)
            lower = torch.where(((one - two) * self.atoms).sum(-1, keepdim=True) <= 0, one, two)
            discount = 0.95 * (1 - rows.terminated.double())
            shifted = rows.reward.double() * self.scale - discount * alpha * next_log_pi
            target = self.projected(lower, shifted, discount)
        predicted = [self.probabilities(net, both, actions, train=True)[: len(obs)] for net in self.critics]
        critic_loss = sum(-(target * p.log()).sum(-1).mean() for p in predicted) / 2
        self.step(self.critic_adam, critic_loss)
        q_mean = sum((p * self.atoms).sum(-1).mean() for p in predicted) / 2
        for critic, slow in zip(self.critics, self.targets, strict=True):
            critic.project()
            with torch.no_grad():
                for key, value in slow.weights.items():
                    value.copy_(0.9 * value + 0.1 * critic.weights[key])
        return {
            "actor_loss": actor_loss.item(),
            "critic_loss": critic_loss.item(),
            "ent_coef": alpha.item(),
            "ent_coef_loss": alpha_loss.item(),
            "learning_rate": 1e-3,
            "q_mean": q_mean.item(),
            "reward_scale": self.scale.item(),
            "support_edge": (target[:, 0] + target[:, -1]).mean().item(),
        }

    def step(self, optimizer, loss) -> None:
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


def test_three_updates_agree_with_a_slow_reference_on_the_same_noise():
    fast = learner("flashsac", CFG, **OPTIONS)
    fast.observe_returns(ReturnStats(count=4, mean=0.0, m2=16.0, peak=2.0))
    slow = SlowFlashSAC(fast.state_dict(), CFG)

    for seed, noise in enumerate(noises(3, rows=24, action_dim=2)):
        metrics = fast.update(minibatch(seed, rows=24))
        expected = slow.update(minibatch(seed, rows=24), *noise)
        assert {k: v.item() for k, v in metrics.items()} == pytest.approx(expected, rel=1e-3, abs=1e-4)

    again = SlowFlashSAC(fast.state_dict(), CFG)
    pairs = zip([again.actor, *again.critics, *again.targets], [slow.actor, *slow.critics, *slow.targets], strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.numbers(), theirs.numbers(), rtol=0.0, atol=2e-4)


def test_the_targets_follow_in_parameters_and_not_in_statistics():
    made = learner("flashsac", CFG, **OPTIONS)
    before = copy.deepcopy(made.state_dict())
    made.update(minibatch())
    after = made.state_dict()

    for key, value in after["target_critic"].items():
        if key.endswith(("mean", "var", "batches")):
            continue
        expected = torch.lerp(before["target_critic"][key], after["critic"][key], 0.1)
        torch.testing.assert_close(value, expected)
    assert after["target_critic"]["body.input_norm.batches"] == 1


def test_the_entropy_target_is_a_gaussians_worked_by_hand():
    # 0.5 ln(2 pi e 0.15^2) = 0.5 ln 0.384286 = -0.478184 a dimension
    assert gaussian_entropy(0.15, 6) == pytest.approx(-2.8691, abs=1e-3)


def test_weights_keep_their_length_over_updates():
    made = learner("flashsac", CFG, **OPTIONS)
    for seed in range(4):
        made.update(minibatch(seed))

    for key, value in flat(made.state_dict()).items():
        if key.startswith(("critic.", "policy.")) and key.endswith(("widen.weight", "linear.weight")):
            torch.testing.assert_close(value.norm(dim=-2), torch.ones_like(value.norm(dim=-2)))
