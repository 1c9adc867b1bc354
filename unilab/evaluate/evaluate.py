"""From options to numbers, and to a video of the first episode."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from unilab.draft import writing
from unilab.errors import Stopped
from unilab.evaluate.options import VIDEO_OF_RUN, EvaluateOptions
from unilab.evaluate.play import play
from unilab.evaluate.report import as_json, as_text
from unilab.interrupt import Interrupt
from unilab.restore import Restored, restore_policy
from unilab.rundir import strict_json
from unilab.view.gl import choose_gl
from unilab.view.options import ViewOptions
from unilab.view.painter import painter_module
from unilab.view.show import show
from unilab.view.video import require_encoder
from unilab.which_checkpoint import BEST, which_checkpoint
from unilab.workers import EvaluationResult


def evaluate(options: EvaluateOptions) -> int:
    """Evaluate what the options ask for, and say how it went.

    Returns:
        0, or 130/143 when interrupted.

    Raises:
        UsageError: something cannot be found, made or drawn; one sentence.
        UnilabError: something cannot be written, or the env returned a NaN; one sentence.
    """
    with Interrupt(on_first=lambda: None, on_second=lambda: None) as interrupt:

        def round_done() -> None:
            if interrupt:
                raise Stopped("asked to stop in the middle of an evaluation")

        try:
            _evaluate(options, round_done, lambda: bool(interrupt))
        except Stopped:
            assert interrupt.signal is not None
            sys.stderr.write(f"unilab: evaluation stopped by {interrupt.signal.name}\n")
    return interrupt.exit_code


def _evaluate(options: EvaluateOptions, round_done: Callable[[], None], stopped: Callable[[], bool]) -> None:
    if options.video is not None:
        require_encoder()
        no_gl = choose_gl()  # before MuJoCo is imported
    checkpoint, notes = which_checkpoint(options.run, options.checkpoint, options.log_dir)
    for note in notes:
        sys.stderr.write(f"unilab: {note}\n")
    restored = restore_policy(checkpoint)
    if options.video is not None:
        painter_module(restored.cfg.env, no_gl)  # an env that cannot be drawn is told before the episodes
    result = play(
        restored,
        episodes=options.episodes,
        seed=options.seed,
        stochastic=options.stochastic,
        round_done=round_done,
    )
    _say(restored, result, as_machines_read=options.json)
    if options.video is not None:
        shown = ViewOptions(
            checkpoint=str(checkpoint),
            seed=options.seed,
            stochastic=options.stochastic,
            steps=int(result.episodes.lengths[0]),
            video=_video_file(options.video, checkpoint),
        )
        show(shown, stopped, tell=sys.stderr if options.json else sys.stdout)


def _say(restored: Restored, result: EvaluationResult, *, as_machines_read: bool) -> None:
    if cut := result.episodes.cut:
        limit = restored.cfg.evaluation.eval_max_steps
        sys.stderr.write(f"unilab: {cut} episodes did not end within {limit:,} steps and were counted as they stood\n")
    if as_machines_read:
        sys.stdout.write(json.dumps(strict_json(as_json(restored, result)), allow_nan=False) + "\n")
    else:
        sys.stdout.write(as_text(restored, result))
    sys.stdout.flush()


def _video_file(video: Path, checkpoint: Path) -> Path:
    """The file that is asked for, or one in the ``videos`` of the run that the checkpoint lies in."""
    if video != VIDEO_OF_RUN:
        return video
    run = checkpoint.parent if checkpoint.name == BEST else checkpoint.parent.parent
    path = run / VIDEO_OF_RUN / f"{checkpoint.name}.mp4"
    with writing(path):
        path.parent.mkdir(exist_ok=True)
    return path
