"""What a walk says about an env: seeds, ends of episodes, speed."""

from __future__ import annotations

from collections import Counter

from unilab.checks.finding import Finding, ok, warn
from unilab.doctor.walk import Walk
from unilab.spec import EnvSpec


def walk_findings(seen: Walk, spec: EnvSpec) -> list[Finding]:
    """One finding for each question."""
    return [_seeds(seen), _endings(seen, spec), _speed(seen)]


def _seeds(seen: Walk) -> Finding:
    if seen.twins_differ:
        return warn(
            "seeds",
            f"not reproducible: two envs with the same seed and the same actions differ in {seen.twins_differ}",
            "draw everything from self.np_random, which super().reset(seed=seed) seeds; without that no run can be "
            "repeated",
        )
    if not seen.seeds_differ:
        return warn(
            "seeds",
            f"two envs with different seeds did the same for {seen.rounds} steps",
            "use the seed in reset (super().reset(seed=seed) and self.np_random), else more envs bring nothing new",
        )
    return ok("seeds", f"the same seed and actions give the same {seen.rounds} steps, another seed gives others")


def _endings(seen: Walk, spec: EnvSpec) -> Finding:
    limit = spec.max_episode_steps
    if not seen.ends:
        if limit is None:
            return warn(
                "episodes",
                f"none ended in {seen.rounds} steps and the env has no time limit",
                "register it with max_episode_steps, or end episodes: without an end there is no return to report",
            )
        return ok("episodes", f"none ended in {seen.rounds} steps; the time limit is {limit:,}")
    lengths = Counter(length for length, _, _ in seen.ends)
    terminated = sum(end for _, end, _ in seen.ends)
    truncated = sum(cut for _, _, cut in seen.ends)
    only = next(iter(lengths))
    length = f"{only}" if len(lengths) == 1 else f"{min(lengths)} to {max(lengths)}"
    saw = f"{len(seen.ends)} ended after {length} steps, {terminated} terminated, {truncated} truncated"
    if len(seen.ends) > 1 and len(lengths) == 1 and only > 1 and terminated == len(seen.ends) and not truncated:
        return warn(
            "episodes",
            f"all {len(seen.ends)} were terminated after exactly {only} steps, which looks like a time limit",
            "return truncated=True for a time limit: the value of a terminated state is taken as 0",
        )
    if len(seen.ends) > 1 and seen.unmoved == len(seen.ends):
        return warn(
            "episodes",
            f"{saw}; each next one began with the final observation of the one before",
            "reset must put the env back and return its first observation",
        )
    return ok("episodes", f"{saw}; the final observation is kept apart from the reset one")


def _speed(seen: Walk) -> Finding:
    return ok(
        "speed",
        f"{seen.steps_per_s:,.0f} env steps/s in one process, {1e3 / seen.steps_per_s:.3g} ms a step",
    )
