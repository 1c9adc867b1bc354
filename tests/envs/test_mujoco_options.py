"""Options of a native task that are mappings or one of a few words."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from unilab.envs.registry import EnvConfig, probe
from unilab.envs.tasks import TASKS, register
from unilab.envs.tasks.half_cheetah import HalfCheetah
from unilab.errors import EnvError


@dataclass(frozen=True, kw_only=True)
class Wind:
    speed: float = 0.0
    gusts: tuple[float, float] = (0.0, 1.0)
    kind: Literal["calm", "storm"] = "calm"

    def __post_init__(self):
        if self.speed < 0:
            raise ValueError(f"speed={self.speed} must be 0 or more")


@dataclass(frozen=True, kw_only=True)
class Windy(HalfCheetah):
    wind: Wind = field(default_factory=Wind)

    def observe(self, sim, rows):
        assert self.wind == Wind(speed=3.0, gusts=(1.0, 2.0), kind="storm")
        return super().observe(sim, rows)


@pytest.fixture(autouse=True)
def windy():
    register("Windy-v0", Windy)
    yield
    del TASKS["Windy-v0"]


def test_a_mapping_becomes_the_options_dataclass():
    wind = {"speed": 3, "gusts": [1, 2], "kind": "storm"}
    assert probe(EnvConfig(env="Windy-v0", env_kwargs={"wind": wind})).obs_dim == 17


@pytest.mark.parametrize(
    ("wind", "words"),
    [
        ({"sped": 1}, "Windy-v0: wind has no option 'sped'; did you mean 'speed'?"),
        ({"speed": "fast"}, "Windy-v0: wind.speed='fast' must be of type float"),
        ({"speed": True}, "Windy-v0: wind.speed=True must be of type float"),
        ({"speed": -1}, "Windy-v0: wind: speed=-1.0 must be 0 or more"),
        ({"gusts": [1]}, "Windy-v0: wind.gusts=[1] must be of type tuple"),
        ({"kind": "rain"}, "Windy-v0: wind.kind='rain' must be one of calm, storm"),
        (["speed"], "Windy-v0: wind=['speed'] must be a mapping of names to values"),
    ],
)
def test_what_a_mapping_may_not_hold_is_refused_in_one_sentence(wind, words):
    with pytest.raises(EnvError) as error:
        probe(EnvConfig(env="Windy-v0", env_kwargs={"wind": wind}))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_task_of_ours_is_suggested_for_a_name_that_is_nearly_its_own():
    with pytest.raises(EnvError, match="did you mean 'unilab/QuadrupedVelocity-v0'"):
        probe(EnvConfig(env="QuadrupedVelocity-v0"))
