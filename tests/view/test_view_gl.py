import sys

import pytest

from unilab.view.gl import choose_gl

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere MuJoCo's own choice needs no display")


def working(*names):
    """A trial that only these backends pass; it remembers which were tried."""

    def trouble_with(name):
        tried.append(name)
        return None if name in names else f"no lib{name}"

    tried = trouble_with.tried = []
    return trouble_with


def test_egl_comes_first():
    environ, trial = {}, working("egl", "osmesa")

    assert choose_gl(environ, trial) is None
    assert environ == {"MUJOCO_GL": "egl"}
    assert trial.tried == ["egl"]


def test_osmesa_is_taken_where_egl_does_not_work():
    environ = {}

    assert choose_gl(environ, working("osmesa")) is None
    assert environ == {"MUJOCO_GL": "osmesa"}


def test_a_choice_of_the_users_stays_and_nothing_else_is_tried():
    environ, trial = {"MUJOCO_GL": "osmesa"}, working("egl", "osmesa")

    assert choose_gl(environ, trial) is None
    assert environ == {"MUJOCO_GL": "osmesa"}
    assert trial.tried == ["osmesa"]


def test_a_choice_that_does_not_work_is_named_and_keeps_nobody_from_importing_mujoco():
    environ = {"MUJOCO_GL": "osmesa"}

    assert "osmesa: no libosmesa" in choose_gl(environ, working("egl"))
    assert environ == {}


def test_where_nothing_works_one_sentence_says_what_was_tried_and_what_to_install():
    environ = {}

    sentence = choose_gl(environ, working())

    assert environ == {}
    assert "\n" not in sentence
    for word in ("egl: no libegl", "osmesa: no libosmesa", "libegl1", "libgl1-mesa-dri", "libosmesa6"):
        assert word in sentence
