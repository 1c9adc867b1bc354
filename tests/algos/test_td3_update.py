"""TD3 against a slow reference: separate networks, torch's own Adam, float64."""

import copy

import pytest
import torch
from separate_nets import actor_from, close, critics_from, move_towards, parameters, q_values
from toy_learners import flat, learner, minibatch

from unilab.algos.base import LearnerConfig
from unilab.algos.noise import learner_generator
from unilab.spec import Minibatch

CFG = LearnerConfig(hidden=(16, 12), learning_rate=1e-3, gamma=0.95, tau=0.1, policy_delay=2)


class SlowTD3:
    """Algorithm 1 of the paper; float64, one thing after the other."""

    def __init__(self, state, cfg: LearnerConfig, *, target_noise: float, noise_clip: float) -> None:
        self.actor = actor_from(state["policy"], "actor.net.")
        self.critics = critics_from(state["critic"])
        self.target_actor, self.target_critics = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.cfg, self.target_noise, self.noise_clip = cfg, target_noise, noise_clip
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=cfg.learning_rate)
        self.critic_adam = torch.optim.Adam(parameters(self.critics), lr=cfg.learning_rate)
        self.updates = 0

    def update(self, rows: Minibatch, noise) -> dict[str, float]:
        self.updates += 1
        obs, action, next_obs = rows.obs.double(), rows.action.double(), rows.next_obs.double()
        with torch.no_grad():
            jitter = torch.clip(noise.double() * self.target_noise, -self.noise_clip, self.noise_clip)
            next_action = torch.clip(torch.tanh(self.target_actor(next_obs)) + jitter, -1, 1)
            next_q = torch.min(*q_values(self.target_critics, next_obs, next_action))
            target = rows.reward.double() + (1 - rows.terminated.double()) * self.cfg.gamma * next_q
        values = q_values(self.critics, obs, action)
        critic_loss = sum((q - target).square().mean() for q in values)
        metrics = {"critic_loss": critic_loss.item(), "q_mean": torch.stack(values).mean().item()}
        self.step(self.critic_adam, critic_loss)
        if self.updates % self.cfg.policy_delay == 0:
            actor_loss = -q_values(self.critics, obs, torch.tanh(self.actor(obs)))[0].mean()
            self.step(self.actor_adam, actor_loss)
            move_towards(self.target_critics, self.critics, self.cfg.tau)
            move_towards([self.target_actor], [self.actor], self.cfg.tau)
            metrics["actor_loss"] = actor_loss.item()
        return metrics

    def step(self, optimizer, loss) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_four_updates_agree_with_a_slow_reference_on_the_same_noise():
    # A noise of 0.5 clipped at 0.4, so that both clips are at work.
    fast = learner("td3", CFG, target_noise=0.5, noise_clip=0.4)
    slow = SlowTD3(fast.state_dict(), CFG, target_noise=0.5, noise_clip=0.4)
    generator = learner_generator(0, torch.device("cpu"))

    for seed in range(4):
        metrics = fast.update(minibatch(seed))
        expected = slow.update(minibatch(seed), torch.randn(32, 2, generator=generator))
        assert {k: v.item() for k, v in metrics.items()} == pytest.approx(
            {"learning_rate": 1e-3, **expected}, rel=1e-4, abs=1e-5
        )

    state = fast.state_dict()
    assert close(actor_from(state["policy"], "actor.net."), slow.actor, 1e-5)
    assert close(actor_from(state["target_actor"], "net."), slow.target_actor, 1e-5)
    for one, other in zip(
        critics_from(state["critic"]) + critics_from(state["target_critic"]),
        slow.critics + slow.target_critics,
        strict=True,
    ):
        assert close(one, other, 1e-5)


def test_actor_and_targets_move_every_policy_delay_updates_counted_over_calls_and_reloads():
    td3, moved, reported = learner("td3", CFG), [], []

    for seed in range(5):
        before = flat(td3.state_dict())
        reported.append("actor_loss" in td3.update(minibatch(seed)))
        after = flat(td3.state_dict())
        changed = {key.split(".")[0] for key in after if not torch.equal(after[key], before[key])}
        assert "critic" in changed
        assert ("policy" in changed) == ("target_actor" in changed) == ("target_critic" in changed)
        moved.append("policy" in changed)
        if seed == 2:
            state = td3.state_dict()
            td3 = learner("td3", CFG, seed=9)
            td3.load_state_dict(state)

    assert moved == reported == [False, True, False, True, False]
