"""A native task stepped in float64 beside other envs, for comparison with Gymnasium's own."""

import numpy as np

from unilab.envs.mujoco_sim import Sim

BESIDE = 2  # envs that do something else, to show that rows do not mix


class Native64:
    """The last of three simulations behaves like one gymnasium env."""

    def __init__(self, task, seed):
        self.task, self.n = task, BESIDE + 1
        rngs = [np.random.default_rng(s) for s in (*range(900, 900 + BESIDE), seed)]
        self.sim = Sim(task.load(), self.n, threads=2, fields=task.fields, rngs=rngs)
        self.row = np.array([BESIDE])
        task.begin(self.sim)
        self._begin(np.arange(self.n))

    def _begin(self, rows):
        self.sim.default(rows)
        for i in rows:
            self.task.reset(self.sim, int(i), self.sim.rngs[i])
        self.sim.forward(rows)

    def reset(self):
        self._begin(self.row)
        return self.task.observe(self.sim, self.row)["obs"][0]

    def first(self):
        return self.task.observe(self.sim, self.row)["obs"][0]

    def step(self, action):
        """As gymnasium, without the flag that belongs to the time limit; the envs beside act the other way."""
        actions = np.stack([-action] * BESIDE + [action])
        before = self.task.before(self.sim)
        self.task.advance(self.sim, actions)
        outcome = self.task.outcome(self.sim, actions, before)
        obs = self.task.observe(self.sim, slice(None))["obs"]
        assert not self.sim.unstable().any()
        info = {name: values[-1] for name, values in outcome.metrics.items()}
        return obs[-1], outcome.reward[-1], outcome.terminated[-1], info
