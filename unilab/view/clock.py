"""Which env steps a video shows, so that it plays in real time whatever its frame rate is.

Frame k shows the state at k / fps seconds. All numbers are fractions: nothing drifts in a long video.
"""

from __future__ import annotations

import math
from fractions import Fraction

_SMOOTH = 60  # frames per second; more is seen by nobody and rendered for long


class Clock:
    """Frames of a video over env steps.

    Args:
        steps: env steps that the video lasts.
        rate: env steps per second.
        fps: frames per second; None: ``rate``, or where that is above 60 the largest whole part of it that is not.
    """

    def __init__(self, steps: int, rate: Fraction, fps: Fraction | None) -> None:
        self.fps = rate / math.ceil(rate / _SMOOTH) if fps is None else fps
        self._frames_per_step = self.fps / rate
        self.frames = self._before(steps)
        """Of the whole video."""

    def frames_at(self, step: int) -> int:
        """How many frames show the state before this step, counted from 0; 0 where the video passes over it."""
        return self._before(step + 1) - self._before(step)

    def _before(self, step: int) -> int:
        return math.ceil(step * self._frames_per_step)
