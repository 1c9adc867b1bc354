"""Where pictures of a task are taken from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """A view of the robot: the body with the model's first joint, and all that hangs on it."""

    distance: float | None = None
    """Metres from the point looked at; None: so that the robot fits in."""

    azimuth: float = 90.0
    """Degrees; 0 looks along x, 90 along y."""

    elevation: float = -20.0
    """Degrees; -90 looks straight down."""

    lookat: tuple[float, float, float] | None = None
    """Point looked at, in metres; with ``follow`` x and y count from the robot's centre of mass. None: that centre, in
    the model's default state."""

    follow: bool = True
    """Whether the camera goes with the robot."""
