import math

import pytest

from unilab.algos.curve import share_left


@pytest.mark.parametrize(
    ("shape", "final", "progress", "share"),
    [
        ("constant", 0.2, 0.7, 1.0),
        ("linear", 0.2, 0.0, 1.0),
        ("linear", 0.2, 0.25, 0.8),
        ("linear", 0.0, 0.75, 0.25),
        ("linear", 0.2, 1.0, 0.2),
        ("cosine", 0.0, 0.0, 1.0),
        ("cosine", 0.2, 0.25, 0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2),
        ("cosine", 0.2, 0.5, 0.6),
        ("cosine", 0.2, 1.0, 0.2),
    ],
)
def test_a_value_falls_from_all_to_its_final_share(shape, final, progress, share):
    assert share_left(shape, final, progress) == pytest.approx(share, rel=1e-12)


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_beyond_the_ends_of_a_run_it_stays(shape):
    assert share_left(shape, 0.3, -1.0) == 1.0
    assert share_left(shape, 0.3, 9.0) == share_left(shape, 0.3, 1.0) == pytest.approx(0.3)
