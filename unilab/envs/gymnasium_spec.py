"""The spec of a gymnasium env, and the refusal of an env that is not the probed one."""

from __future__ import annotations

import dataclasses

from unilab.envs.gymnasium_spaces import ActionScale, ObsLayout
from unilab.errors import EnvError
from unilab.spec import EnvSpec


def spec_of(
    env_id: str,
    layout: ObsLayout,
    scale: ActionScale,
    metric_names: tuple[str, ...] = (),
    max_episode_steps: int | None = None,
) -> EnvSpec:
    """What the learner must know of envs with this layout and these actions."""
    return EnvSpec(
        env_id=env_id,
        obs_dim=layout.obs_dim,
        action_dim=scale.dim,
        action_low=scale.low,
        action_high=scale.high,
        critic_dim=layout.critic_dim,
        obs_keys=layout.obs_keys,
        critic_keys=layout.critic_keys,
        metric_names=metric_names,
        max_episode_steps=max_episode_steps,
    )


def check_same(spec: EnvSpec, layout: ObsLayout, scale: ActionScale) -> None:
    """Refuse an env that differs from the one that was probed.

    Raises:
        EnvError: names the first field that differs.
    """
    built = spec_of(spec.env_id, layout, scale, spec.metric_names, spec.max_episode_steps)
    for field in dataclasses.fields(EnvSpec):
        want, got = getattr(spec, field.name), getattr(built, field.name)
        if want != got:
            raise EnvError(f"{spec.env_id}: {field.name} is {got}, but it was {want} when the env was probed")
