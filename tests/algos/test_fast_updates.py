"""FastTD3 and FastSAC against slow references: separate networks, projections by loops, torch's own AdamW, float64."""

import copy
import dataclasses

import pytest
import torch
from separate_nets import actor_from, move_towards, parameters
from test_categorical import by_loops
from test_sac_update import noises
from torch import nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution
from toy_learners import flat, learner, minibatch, returns

from unilab.algos.base import LearnerConfig
from unilab.algos.categorical import Support
from unilab.algos.noise import learner_generator

CFG = LearnerConfig(
    hidden=(16, 12),
    critic_hidden=(14, 10),
    learning_rate=1e-3,
    gamma=0.95,
    tau=0.1,
    policy_delay=2,
    adam_betas=(0.9, 0.95),
    weight_decay=0.1,
    norm_reward=True,
)
SUPPORT = Support(-3.0, 3.0, 11)
TOLERANCE = 1e-4  # a tenth of one step: Adam divides a gradient near 0 by its own rounding
SPAN = {"v_min": -3.0, "v_max": 3.0, "atoms": 11}


def stack(state, prefix: str, after: list[nn.Module], head: str, member: int | None = None) -> nn.Sequential:
    """Linear layers under ``prefix``, each followed by ``after``'s kinds, and a last one; float64."""
    numbers = sorted({int(k.removeprefix(prefix).split(".")[0]) for k in state if k.startswith(prefix)})
    layers: list[nn.Module] = []
    for name in [*(f"{prefix}{i}" for i in numbers), head]:
        weight, bias = (state[f"{name}.{kind}"].double().clone() for kind in ("weight", "bias"))
        if member is not None:
            weight, bias = weight[member], bias[member, 0]
            weight = weight.T if weight.shape[0] > 1 else weight[0]  # [1, width]: a layer norm's
        layer = nn.Linear(weight.shape[1], weight.shape[0]) if weight.ndim == 2 else nn.LayerNorm(len(weight))
        layer.weight.data, layer.bias.data = weight, bias
        layers.append(layer)
        follows = after if weight.ndim == 1 or not any(isinstance(m, nn.SiLU) for m in after) else []
        layers += copy.deepcopy(follows) if name != head else []
    return nn.Sequential(*layers).double()


class Slow:
    """What both have: critics, their targets and how a loss is descended."""

    def __init__(self, state, cfg, after) -> None:
        self.critics = [stack(state["critic"], "layers.", after, "head", member) for member in range(2)]
        self.targets = copy.deepcopy(self.critics)
        self.cfg, self.updates = cfg, 0
        self.z = torch.linspace(SUPPORT.low, SUPPORT.high, SUPPORT.count, dtype=torch.float64)
        self.critic_adam = self.adamw(parameters(self.critics))

    def adamw(self, tensors):
        cfg = self.cfg
        return torch.optim.AdamW(tensors, lr=cfg.learning_rate, betas=cfg.adam_betas, weight_decay=cfg.weight_decay)

    def distributions(self, critics, obs, action):
        return [torch.softmax(critic(torch.cat((obs, action), -1)), -1) for critic in critics]

    def learn_critics(self, obs, action, targets) -> dict[str, float]:
        predicted = self.distributions(self.critics, obs, action)
        loss = sum(-(t * p.log()).sum(-1).mean() for t, p in zip(targets, predicted, strict=True))
        q_mean = torch.stack([(p * self.z).sum(-1) for p in predicted]).mean().item()
        edge = torch.stack([t[:, 0] + t[:, -1] for t in targets]).mean().item()
        self.step(self.critic_adam, loss)
        return {"critic_loss": loss.item(), "q_mean": q_mean, "support_edge": edge}

    def step(self, optimizer, loss) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def expected(self, obs, action):
        return [(p * self.z).sum(-1) for p in self.distributions(self.critics, obs, action)]


class SlowFastTD3(Slow):
    def __init__(self, state, cfg, *, target_noise, noise_clip) -> None:
        super().__init__(state, cfg, [nn.ReLU()])
        self.actor = actor_from(state["policy"], "actor.net.")
        self.actor_adam = self.adamw(self.actor.parameters())
        self.target_noise, self.noise_clip = target_noise, noise_clip

    def update(self, rows, noise, scale: float) -> dict[str, float]:
        self.updates += 1
        obs, action, next_obs = rows.obs.double(), rows.action.double(), rows.next_obs.double()
        with torch.no_grad():
            jitter = torch.clip(noise.double() * self.target_noise, -self.noise_clip, self.noise_clip)
            next_action = torch.clip(torch.tanh(self.actor(next_obs)) + jitter, -1, 1)
            one, other = self.distributions(self.targets, next_obs, next_action)
            smaller = [p if (p * self.z).sum() <= (q * self.z).sum() else q for p, q in zip(one, other, strict=True)]
            discount = self.cfg.gamma * (1.0 - rows.terminated.double())
            target = by_loops(torch.stack(smaller), rows.reward.double() * scale, discount, SUPPORT)
        metrics = self.learn_critics(obs, action, [target, target])
        if self.updates % self.cfg.policy_delay == 0:
            loss = -torch.min(*self.expected(obs, torch.tanh(self.actor(obs)))).mean()
            self.step(self.actor_adam, loss)
            metrics["actor_loss"] = loss.item()
        move_towards(self.targets, self.critics, self.cfg.tau)
        return metrics


class SlowFastSAC(Slow):
    def __init__(self, state, cfg, *, target_entropy, log_std) -> None:
        smooth = [nn.SiLU()]
        super().__init__(state, cfg, smooth)
        self.actor = stack(state["policy"], "actor.body.", smooth, "actor.head")
        self.actor_adam = self.adamw(self.actor.parameters())
        self.log_alpha = state["temperature"]["log_alpha"].double().clone().requires_grad_()
        self.alpha_adam = torch.optim.AdamW(
            [self.log_alpha], lr=cfg.learning_rate, betas=cfg.adam_betas, weight_decay=0.0
        )
        self.target_entropy, self.log_std = target_entropy, log_std

    def sample(self, obs, noise):
        mean, raw = self.actor(obs).chunk(2, -1)
        low, high = self.log_std
        std = (low + (high - low) * (torch.tanh(raw) + 1) / 2).exp()
        distribution = TransformedDistribution(Independent(Normal(mean, std), 1), [TanhTransform(cache_size=1)])
        action = distribution.transforms[0](mean + std * noise)
        return action, distribution.log_prob(action)

    def update(self, rows, noise, scale: float) -> dict[str, float]:
        self.updates += 1
        obs, action, next_obs = rows.obs.double(), rows.action.double(), rows.next_obs.double()
        alpha = self.log_alpha.exp().item()
        with torch.no_grad():
            next_action, log_prob = self.sample(next_obs, noise[0].double())
            discount = self.cfg.gamma * (1.0 - rows.terminated.double())
            reward = rows.reward.double() * scale - discount * alpha * log_prob
            own = [
                by_loops(p, reward, discount, SUPPORT) for p in self.distributions(self.targets, next_obs, next_action)
            ]
        metrics = self.learn_critics(obs, action, own) | {"ent_coef": alpha}
        alpha_loss = -(self.log_alpha * (log_prob + self.target_entropy)).mean()
        self.step(self.alpha_adam, alpha_loss)
        metrics["ent_coef_loss"] = alpha_loss.item()
        if self.updates % self.cfg.policy_delay == 0:
            pi, log_pi = self.sample(obs, noise[1].double())
            mean_q = sum(self.expected(obs, pi)) / 2
            loss = (self.log_alpha.exp().detach() * log_pi - mean_q).mean()
            self.step(self.actor_adam, loss)
            metrics["actor_loss"] = loss.item()
        move_towards(self.targets, self.critics, self.cfg.tau)
        return metrics


def numbers(net) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def run_both(fast, slow, draws) -> None:
    for seed, noise in enumerate(draws):
        fast.observe_returns(returns(seed))
        metrics = {k: v.item() for k, v in fast.update(minibatch(seed)).items()}
        expected = slow.update(minibatch(seed), noise, metrics.pop("reward_scale"))
        assert metrics == pytest.approx({"learning_rate": 1e-3, **expected}, rel=1e-4, abs=2e-5)


def test_four_updates_of_fasttd3_agree_with_a_slow_reference_on_the_same_noise():
    # A noise of 0.5 clipped at 0.4, so that both clips are at work.
    fast = learner("fasttd3", CFG, target_noise=0.5, noise_clip=0.4, **SPAN)
    slow = SlowFastTD3(fast.state_dict(), CFG, target_noise=0.5, noise_clip=0.4)
    generator = learner_generator(0, torch.device("cpu"))

    run_both(fast, slow, (torch.randn(32, 2, generator=generator) for _ in range(4)))

    state = fast.state_dict()
    torch.testing.assert_close(
        numbers(actor_from(state["policy"], "actor.net.")), numbers(slow.actor), rtol=0, atol=2e-5
    )
    for part, nets in (("critic", slow.critics), ("target_critic", slow.targets)):
        for member, net in enumerate(nets):
            mine = stack(state[part], "layers.", [nn.ReLU()], "head", member)
            torch.testing.assert_close(numbers(mine), numbers(net), rtol=0, atol=TOLERANCE)


def test_four_updates_of_fastsac_agree_with_a_slow_reference_on_the_same_noise():
    options = {"ent_coef": "auto_0.3", "target_entropy": -1.5, "log_std_min": -4.0, "log_std_max": 1.0}
    fast = learner("fastsac", CFG, **options, **SPAN)
    slow = SlowFastSAC(fast.state_dict(), CFG, target_entropy=-1.5, log_std=(-4.0, 1.0))

    run_both(fast, slow, noises(4, rows=32, action_dim=2))

    state = fast.state_dict()
    assert state["temperature"]["log_alpha"].item() == pytest.approx(slow.log_alpha.item(), abs=1e-5)
    mine = stack(state["policy"], "actor.body.", [nn.SiLU()], "actor.head")
    torch.testing.assert_close(numbers(mine), numbers(slow.actor), rtol=0, atol=TOLERANCE)
    for part, nets in (("critic", slow.critics), ("target_critic", slow.targets)):
        for member, net in enumerate(nets):
            mine = stack(state[part], "layers.", [nn.SiLU()], "head", member)
            torch.testing.assert_close(numbers(mine), numbers(net), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("algo", ["fasttd3", "fastsac"])
def test_the_actor_moves_every_policy_delay_updates_and_the_targets_at_each(algo):
    made, moved = learner(algo, CFG), []
    for seed in range(4):
        before = flat(made.state_dict())
        made.update(minibatch(seed))
        after = flat(made.state_dict())
        changed = {key.split(".")[0] for key in after if not torch.equal(after[key], before[key])}
        assert {"critic", "target_critic"} <= changed
        moved.append("policy" in changed)

    assert moved == [False, True, False, True]


@pytest.mark.parametrize("algo", ["fasttd3", "fastsac"])
def test_a_row_may_have_a_discount_of_its_own(algo):
    """Rows of m steps with gamma count as rows of one step with gamma^m."""
    rows = minibatch()
    each, whole = learner(algo, CFG), learner(algo, dataclasses.replace(CFG, gamma=CFG.gamma**3))
    metrics = each.update(dataclasses.replace(rows, steps=torch.full((32,), 3.0)))
    expected = whole.update(rows)

    assert {k: v.item() for k, v in metrics.items()} == pytest.approx({k: v.item() for k, v in expected.items()}, 1e-5)
