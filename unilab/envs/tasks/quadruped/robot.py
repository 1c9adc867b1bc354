"""A robot from its YAML file: where the model is, and what its parts are called.

A robot of your own is one such file; ``robots/quadruped.yaml`` says what each key means.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from unilab.errors import EnvError, nearest
from unilab.strict_yaml import load_yaml

_FOLDER = Path(__file__).parent / "robots"
LEGS, JOINTS = 4, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Servo:
    """Position servos for a model that has none, or whose own are replaced; numbers for all joints or one a joint."""

    kp: tuple[float, ...]  # N m / rad
    kv: tuple[float, ...] = (0.0,) * JOINTS  # N m s / rad
    torque: tuple[float, ...]  # N m, the largest
    armature: tuple[float, ...] | None = None  # kg m2; None: the model's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """Names of sensors in the model."""

    gyro: str  # angular velocity of the IMU
    up: str  # ``framezaxis`` of the world, seen from the IMU


@dataclass(frozen=True, slots=True, kw_only=True)
class Robot:
    """A robot file, checked as far as possible without its model."""

    model: str
    joints: tuple[str, ...]
    nominal: tuple[float, ...]  # rad
    reach: tuple[float, ...]  # rad
    height: float  # m
    trunk: str
    feet: tuple[str, ...]
    sensors: Sensors
    servo: Servo | None = None


def load_robot(name: str) -> tuple[Robot, Path]:
    """Read a robot.

    Args:
        name: of a robot that comes with unilab, or the path of a YAML file.

    Returns:
        The robot and the full path of its model.

    Raises:
        EnvError: no such robot, or something in its file is missing, unknown or of the wrong kind.
    """
    path = _file(name)
    try:
        content = load_yaml(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise EnvError(f"robot {path} cannot be read: {' '.join(str(error).split())}") from error
    where = f"robot {path}"
    values = _keys(where, content, Robot)
    robot = Robot(
        model=_text(where, "model", values),
        joints=_names(where, "joints", values, JOINTS),
        nominal=_numbers(where, "nominal", values),
        reach=_numbers(where, "reach", values, positive=True),
        height=_height(where, values["height"]),
        trunk=_text(where, "trunk", values),
        feet=_names(where, "feet", values, LEGS),
        sensors=_sensors(f"{where}: sensors", values["sensors"]),
        servo=_servo(f"{where}: servo", values["servo"]) if values.get("servo") is not None else None,
    )
    return robot, _model_file(where, robot.model, path.parent)


def _file(name: str) -> Path:
    own = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
    if name in own:
        return _FOLDER / f"{name}.yaml"
    path = Path(name).expanduser()
    if not path.is_file():
        raise EnvError(f"robot={name!r} is no file and none of {', '.join(own)}{nearest(name, own)}")
    return path


def _model_file(where: str, model: str, folder: Path) -> Path:
    package, colon, inside = model.partition(":")
    if colon:
        found = importlib.util.find_spec(package) if package.isidentifier() else None
        if found is None or not found.submodule_search_locations:
            raise EnvError(f"{where}: model={model!r} needs the package {package!r}, which is not installed")
        path = Path(next(iter(found.submodule_search_locations))) / inside
    else:
        path = folder / Path(model).expanduser()
    if not path.is_file():
        raise EnvError(f"{where}: model={model!r}: there is no file {path}")
    return path


def _keys(where: str, content: Any, kind: type) -> Mapping[str, Any]:
    """The mapping, once its keys are those of a dataclass."""
    if not isinstance(content, Mapping):
        raise EnvError(f"{where} must be a mapping of keys to values, not {content!r}")
    known = {field.name: field.default is MISSING for field in fields(kind)}
    for key in content:
        if key not in known:
            raise EnvError(f"{where}: unknown key {key!r}{nearest(str(key), known)}")
    for key, needed in known.items():
        if needed and key not in content:
            raise EnvError(f"{where}: {key} is missing")
    return content


def _sensors(where: str, content: Any) -> Sensors:
    values = _keys(where, content, Sensors)
    return Sensors(gyro=_text(where, "gyro", values), up=_text(where, "up", values))


def _servo(where: str, content: Any) -> Servo:
    values = {"kv": 0.0, "armature": None} | dict(_keys(where, content, Servo))
    return Servo(
        kp=_numbers(where, "kp", values, positive=True),
        kv=_numbers(where, "kv", values),
        torque=_numbers(where, "torque", values, positive=True),
        armature=None if values["armature"] is None else _numbers(where, "armature", values),
    )


def _height(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise EnvError(f"{where}: height={value!r} must be a positive number of metres")
    return float(value)


def _text(where: str, key: str, values: Mapping[str, Any]) -> str:
    value = values[key]
    if not isinstance(value, str) or not value:
        raise EnvError(f"{where}: {key}={value!r} must be a text")
    return value


def _names(where: str, key: str, values: Mapping[str, Any], count: int) -> tuple[str, ...]:
    value = values[key]
    good = isinstance(value, list) and all(isinstance(name, str) for name in value)
    if not good or len(value) != count or len(set(value)) != count:
        raise EnvError(f"{where}: {key}={value!r} must be a list of {count} different names")
    return tuple(value)


def _numbers(where: str, key: str, values: Mapping[str, Any], *, positive: bool = False) -> tuple[float, ...]:
    """One number a joint; a single one stands for all."""
    value = values[key]
    items = value if isinstance(value, list) else [value] * JOINTS
    numbers = [item for item in items if isinstance(item, int | float) and not isinstance(item, bool)]
    good = len(numbers) == len(items) == JOINTS and all(math.isfinite(number) for number in numbers)
    if not good or (positive and min(numbers) <= 0):
        kind = "a positive number" if positive else "a number"
        raise EnvError(f"{where}: {key}={value!r} must be {kind}, or a list of {JOINTS}, one a joint")
    return tuple(float(number) for number in numbers)
