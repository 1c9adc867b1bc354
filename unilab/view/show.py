"""From options to files: makes the env, lets it be acted in, draws it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TextIO

import numpy as np

from unilab.config import laid_over
from unilab.envs.base import BatchEnv, closing_env
from unilab.envs.registry import EnvConfig, make_env, probe
from unilab.errors import EnvError, Stopped
from unilab.interrupt import Interrupt
from unilab.restore import load_policy
from unilab.spec import EnvSpec
from unilab.view.acting import Act, RandomActions
from unilab.view.clock import Clock
from unilab.view.gl import choose_gl
from unilab.view.grid import Grid
from unilab.view.options import ViewOptions
from unilab.view.painter import Painter, painter_module
from unilab.view.still import save_png
from unilab.view.video import open_video, require_encoder
from unilab.which_checkpoint import which_checkpoint

_IMAGE_STEPS = 20
_VIDEO_S = 10
_NEWS_S = 10.0

_FITS = ("obs_dim", "action_dim", "obs_keys", "action_low", "action_high")
_ENCODER_FITS = ("critic_dim", "critic_keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Which env, and who acts in it."""

    env: EnvConfig
    seed: int
    name: str
    act: Act | None = None  # None: chance
    trained_on: EnvSpec | None = None  # what the policy fits; None: it is the env's own
    fits: tuple[str, ...] = ()  # fields of its spec that the policy depends on


def view(options: ViewOptions) -> int:
    """Write what the options ask for, and say so.

    Returns:
        0, or 130/143 when interrupted; then nothing was written.

    Raises:
        UsageError: something cannot be found, made or drawn; one sentence.
        UnilabError: something cannot be written; one sentence.
    """
    with Interrupt(on_first=lambda: None, on_second=lambda: None) as interrupt:
        try:
            show(options, lambda: bool(interrupt))
        except Stopped:
            assert interrupt.signal is not None
            sys.stderr.write(f"unilab: view stopped by {interrupt.signal.name}; nothing was written\n")
    return interrupt.exit_code


def show(options: ViewOptions, stopped: Callable[[], bool] = lambda: False, *, tell: TextIO | None = None) -> None:
    """See ``view``.

    Args:
        options: what to show.
        stopped: whether the user wants it to end.
        tell: gets a line for each file; None: standard output.

    Raises:
        UsageError, UnilabError: see ``view``.
        Stopped: asked to end.
    """
    if options.video is not None:
        require_encoder()
    grid = Grid(options.envs, options.size)
    no_gl = choose_gl()  # before MuJoCo is imported
    subject = _subject(options)
    painters, cfg = painter_module(subject.env, no_gl)
    cfg = painters.with_rendering(cfg, grid.tile, options.camera)
    with closing_env(make_env(cfg, seed=subject.seed, role="eval")) as env:
        if subject.trained_on is not None:
            _check_fits(subject.trained_on, env.spec, subject.fits)
        act = subject.act or RandomActions(env.spec.action_dim, options.envs, subject.seed)
        with closing(painters.make_painter(env, grid.tile, options.camera)) as painter:
            told = _record(env, act, painter, grid, options, stopped)
    for line in told:
        (tell or sys.stdout).write(f"{line}: {subject.name}\n")


def _record(
    env: BatchEnv, act: Act, painter: Painter, grid: Grid, options: ViewOptions, stopped: Callable[[], bool]
) -> list[str]:
    """Act, draw and write; returns what was written, in words."""
    steps = _steps(options, painter.rate)
    clock = Clock(steps, painter.rate, options.fps)
    frames, told, told_s = 0, [], time.monotonic()
    with ExitStack() as stack:
        video = stack.enter_context(open_video(options.video, grid.size, clock.fps)) if options.video else None
        obs, ended = env.reset(), np.zeros(env.num_envs, np.bool_)
        for step in range(steps):
            if stopped():
                raise Stopped("asked to stop while pictures were made")
            if video and (copies := clock.frames_at(step)):
                picture = grid.picture(list(painter.tiles()))
                for _ in range(copies):
                    video.write(picture)
                frames += copies
            result = env.step(act(obs, ended))
            obs, ended = result.obs, result.terminated | result.truncated
            if time.monotonic() - told_s > _NEWS_S:
                told_s = time.monotonic()
                sys.stderr.write(f"unilab: {step + 1} of {steps} steps\n")
        last = grid.picture(list(painter.tiles())) if options.image else None
    if options.video:
        seconds = float(frames / clock.fps)
        told.append(f"{options.video}: {frames} frames of {grid.size} at {float(clock.fps):.4g} fps, {seconds:.4g} s")
    if options.image and last is not None:
        save_png(options.image, last)
        told.append(f"{options.image}: {grid.size} after {steps} steps")
    return told


def _steps(options: ViewOptions, rate: Fraction) -> int:
    if options.steps is not None:
        return options.steps
    if options.seconds is None and options.video is None:
        return _IMAGE_STEPS
    return math.ceil((options.seconds or _VIDEO_S) * rate)


def _subject(options: ViewOptions) -> Subject:
    changes: dict[str, Any] = {"num_envs": options.envs}
    if options.backend is not None:
        changes["backend"] = options.backend
    if options.env is not None:
        cfg = EnvConfig(env=options.env, env_kwargs=options.env_kwargs, action_bound=options.action_bound, **changes)
        return Subject(env=cfg, seed=options.seed or 0, name=f"{options.env}, random actions")
    checkpoint, notes = which_checkpoint(options.run, options.checkpoint, options.log_dir)
    for note in notes:
        sys.stderr.write(f"unilab: {note}\n")
    policy, run = load_policy(checkpoint, seed=options.seed)
    changed = options.backend is not None or options.env_kwargs
    act: Act = policy.explore if options.stochastic else lambda obs, ended: policy.act(obs)
    return Subject(
        env=replace(run.env, env_kwargs=laid_over(run.env.env_kwargs, options.env_kwargs), **changes),
        seed=run.seed if options.seed is None else options.seed,
        name=f"{run.env.env}, {'random actions' if options.random else f'policy of {checkpoint}'}",
        act=None if options.random else act,
        trained_on=probe(run.env) if changed and not options.random else None,
        fits=_FITS + (_ENCODER_FITS if run.learner.privileged_encoder else ()),
    )


def _check_fits(trained_on: EnvSpec, env: EnvSpec, fields: Sequence[str]) -> None:
    """Refuse an env whose options were changed so that the policy does not fit it any more."""
    for field in fields:
        was, now = getattr(trained_on, field), getattr(env, field)
        if was != now:
            raise EnvError(f"{env.env_id}: with these options {field} is {now}, but the policy was trained with {was}")
