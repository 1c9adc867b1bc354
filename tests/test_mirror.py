"""Mirror maps: what they do is done by whoever uses them; here is what they may be."""

import pickle

import pytest

from unilab.mirror import Mirror, SignedPermutation, in_place, side_by_side


@pytest.mark.parametrize(
    ("index", "sign", "said"),
    [
        ((0, 0), (1, 1), "no signed permutation"),
        ((0, 2), (1, 1), "no signed permutation"),
        ((0, 1), (1,), "no signed permutation"),
        ((0, 1), (1, 2), "no signed permutation"),
        ((1, 2, 0), (1, 1, 1), "twice must change nothing"),
        ((1, 0), (1, -1), "twice must change nothing"),
    ],
)
def test_what_is_no_mirror_is_refused(index, sign, said):
    with pytest.raises(ValueError, match=said):
        SignedPermutation(index, sign)


def test_parts_side_by_side_keep_to_themselves():
    swap = SignedPermutation((1, 0), (-1, -1))

    assert side_by_side([in_place(1, -1), swap, in_place(-1)]) == SignedPermutation(
        (0, 1, 3, 2, 4), (1, -1, -1, -1, -1)
    )
    assert len(side_by_side([])) == 0


def test_a_mirror_travels_to_a_process_and_stays_equal():
    mirror = Mirror(obs=in_place(1, -1), action=in_place(-1))

    assert pickle.loads(pickle.dumps(mirror)) == mirror
