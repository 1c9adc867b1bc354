"""SAC against a slow reference: separate networks, torch's own Adam and distributions, float64."""

import copy
import dataclasses

import pytest
import torch
from separate_nets import actor_from, close, critics_from, move_towards, parameters, q_values
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution
from toy_learners import flat, learner, minibatch

from unilab.algos.base import LearnerConfig
from unilab.algos.noise import learner_generator
from unilab.spec import Minibatch

CFG = LearnerConfig(hidden=(16, 12), learning_rate=1e-3, gamma=0.95, tau=0.1)


class SlowSAC:
    """The update as a paper would write it; float64, one thing after the other."""

    def __init__(self, state, cfg: LearnerConfig, *, target_entropy: float) -> None:
        self.actor = actor_from(state["policy"], "actor.net.")
        self.critics = critics_from(state["critic"])
        self.targets = copy.deepcopy(self.critics)
        self.log_alpha = state["temperature"]["log_alpha"].double().clone().requires_grad_()
        self.cfg, self.target_entropy = cfg, target_entropy
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=cfg.learning_rate)
        self.critic_adam = torch.optim.Adam(parameters(self.critics), lr=cfg.learning_rate)
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=cfg.learning_rate)

    def sample(self, obs, noise):
        mean, log_std = self.actor(obs).chunk(2, -1)
        std = log_std.clamp(-20, 2).exp()
        distribution = TransformedDistribution(Independent(Normal(mean, std), 1), [TanhTransform(cache_size=1)])
        action = distribution.transforms[0](mean + std * noise)
        return action, distribution.log_prob(action)

    def update(self, rows: Minibatch, noise, next_noise) -> dict[str, float]:
        obs, action, next_obs = rows.obs.double(), rows.action.double(), rows.next_obs.double()
        pi, log_pi = self.sample(obs, noise.double())

        alpha_loss = -(self.log_alpha * (log_pi + self.target_entropy).detach()).mean()
        self.step(self.alpha_adam, alpha_loss)
        alpha = self.log_alpha.exp().detach()

        with torch.no_grad():
            next_pi, next_log_pi = self.sample(next_obs, next_noise.double())
            next_q = torch.min(*q_values(self.targets, next_obs, next_pi)) - alpha * next_log_pi
            ended = rows.terminated.double()
            target = rows.reward.double() + (1 - ended) * self.cfg.gamma * next_q
        errors = [(q - target).square().mean() for q in q_values(self.critics, obs, action)]
        critic_loss = 0.5 * sum(errors)
        q_mean = torch.stack(q_values(self.critics, obs, action)).mean()
        self.step(self.critic_adam, critic_loss)

        actor_loss = (alpha * log_pi - torch.min(*q_values(self.critics, obs, pi))).mean()
        self.step(self.actor_adam, actor_loss)
        move_towards(self.targets, self.critics, self.cfg.tau)
        return {
            "actor_loss": actor_loss.item(),
            "critic_loss": critic_loss.item(),
            "ent_coef": alpha.item(),
            "ent_coef_loss": alpha_loss.item(),
            "q_mean": q_mean.item(),
        }

    def step(self, optimizer, loss) -> None:
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


def noises(updates: int, rows: int, action_dim: int):
    """What a learner with seed 0 draws: for ``obs`` first, then for ``next_obs``."""
    generator = learner_generator(0, torch.device("cpu"))
    for _ in range(updates):
        yield torch.randn(2, rows, action_dim, generator=generator)


def test_three_updates_agree_with_a_slow_reference_on_the_same_noise():
    fast = learner("sac", CFG, ent_coef="auto_0.3", target_entropy=-1.5)
    slow = SlowSAC(fast.state_dict(), CFG, target_entropy=-1.5)

    for seed, noise in enumerate(noises(3, rows=32, action_dim=2)):
        metrics = fast.update(minibatch(seed))
        expected = slow.update(minibatch(seed), *noise)
        assert {k: v.item() for k, v in metrics.items()} == pytest.approx(
            {"learning_rate": 1e-3, **expected}, rel=1e-4, abs=1e-5
        )

    state = fast.state_dict()
    assert close(actor_from(state["policy"], "actor.net."), slow.actor, 1e-5)
    for one, other in zip(
        critics_from(state["critic"]) + critics_from(state["target_critic"]),
        slow.critics + slow.targets,
        strict=True,
    ):
        assert close(one, other, 1e-5)
    assert state["temperature"]["log_alpha"].item() == pytest.approx(slow.log_alpha.item(), abs=1e-5)


def test_the_next_critic_target_uses_exp_log_alpha_after_its_step():
    cfg = LearnerConfig(hidden=(16, 12), learning_rate=0.5)
    sac = learner("sac", cfg, ent_coef="auto_0.3")
    before = sac.state_dict()
    rows, (noise,) = minibatch(), noises(1, 32, 2)

    metrics = sac.update(rows)

    alpha = sac.state_dict()["temperature"]["log_alpha"].exp()
    assert torch.equal(metrics["ent_coef"], alpha)
    assert abs(alpha.item() - 0.3) > 0.1  # so that the temperature before would be told apart
    slow = SlowSAC(before, cfg, target_entropy=-2.0)
    with torch.no_grad():
        pi, log_pi = slow.sample(rows.next_obs.double(), noise[1].double())
        next_q = torch.min(*q_values(slow.targets, rows.next_obs.double(), pi)) - alpha * log_pi
        target = rows.reward + 0.99 * ~rows.terminated * next_q
        q = torch.stack(q_values(slow.critics, rows.obs.double(), rows.action.double()))
    assert metrics["critic_loss"].item() == pytest.approx((q - target).square().mean().item(), rel=1e-4)


def test_actor_and_temperature_move_every_policy_delay_updates_counted_over_calls_and_reloads():
    cfg = LearnerConfig(hidden=(16,), policy_delay=3)
    sac, moved, reported = learner("sac", cfg), [], []

    for seed in range(7):
        before = flat(sac.state_dict())
        reported.append("actor_loss" in sac.update(minibatch(seed)))
        after = flat(sac.state_dict())
        changed = {key.split(".")[0] for key in after if not torch.equal(after[key], before[key])}
        assert {"critic", "target_critic", "critic_optimizer"} <= changed
        assert ("policy" in changed) == ("temperature" in changed) == ("actor_optimizer" in changed)
        moved.append("policy" in changed)
        if seed == 3:
            state = sac.state_dict()
            sac = learner("sac", cfg, seed=9)
            sac.load_state_dict(state)

    assert moved == reported == [False, False, True, False, False, True, False]


def test_auto_target_entropy_is_minus_the_action_dimension():
    auto, given = learner("sac"), learner("sac", target_entropy=-2.0)

    assert auto.update(minibatch())["ent_coef_loss"] == given.update(minibatch())["ent_coef_loss"]


def test_a_row_with_both_flags_set_counts_as_terminated():
    every, none = torch.ones(32, dtype=torch.bool), torch.zeros(32, dtype=torch.bool)
    rows, critics = minibatch(), critics_from(learner("sac").state_dict()["critic"])
    q = torch.stack(q_values(critics, rows.obs.double(), rows.action.double()))
    without_bootstrap = (q - rows.reward).square().mean().item()

    for truncated in (none, every):
        ended = dataclasses.replace(rows, terminated=every, truncated=truncated)
        assert learner("sac").update(ended)["critic_loss"].item() == pytest.approx(without_bootstrap, rel=1e-4)
