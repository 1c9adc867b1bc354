"""Rings in one block of memory: each as if it were alone, and together one replay."""

import pickle
from hashlib import sha256
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from tape import LAYOUT, WIDTH, Tape

from unilab.errors import BlockFreed
from unilab.replay import Replay
from unilab.replay.ring import open_rings


def taped(ring):
    tape = Tape(ring.capacity)
    tape.ring.free()
    tape.ring = ring
    return tape


@pytest.fixture
def replay():
    replay = Replay([8, 5, 3], LAYOUT)
    yield replay
    replay.free()


def test_each_ring_wraps_in_its_own_cells_and_leaves_the_others_alone(replay):
    tapes = [taped(ring) for ring in replay.rings]
    tapes[1].append(4).append(4)  # has wrapped
    tapes[0].append(2)

    tapes[0].holds(replay.rings[0], 0, 2)
    tapes[1].holds(replay.rings[1], 3, 8)
    tapes[2].holds(replay.rings[2], 0, 0)
    cells = replay.rings[0]._shared.rows
    assert np.isnan(cells[2:8]).all()
    assert np.isnan(cells[13:]).all()
    assert not np.isnan(cells[8:13]).any()


def test_rings_lie_one_after_the_other(replay):
    assert [(ring.index, ring.first_cell, ring.capacity) for ring in replay.rings] == [(0, 0, 8), (1, 8, 5), (2, 13, 3)]


def test_the_replay_counts_the_rows_of_all(replay):
    tapes = [taped(ring) for ring in replay.rings]
    assert (replay.cursor, replay.held) == (0, 0)
    for tape, appends in zip(tapes, (3, 2, 1), strict=True):
        for _ in range(appends):
            tape.append(3)

    assert (replay.cursor, replay.held) == (9 + 6 + 3, 8 + 5 + 3)
    # Of the ring whose row is the oldest: the version is the number of the append.
    newest = [ring.versions_of(np.array([ring.cursor - 1]))[0] for ring in replay.rings]
    assert len(set(newest)) == 3
    assert replay.version_before([ring.cursor for ring in replay.rings]) == min(newest) == 1
    assert replay.version_before([6, 6, 3]) == min(
        replay.rings[i].versions_of(np.array([n]))[0] for i, n in ((0, 5), (1, 5), (2, 2))
    )


def test_the_digest_is_of_all_rings_and_of_the_ring_where_there_is_one(replay):
    tapes, digests = [taped(ring) for ring in replay.rings], [replay.digest()]
    for tape in tapes:
        tape.append(2)
        digests.append(replay.digest())
    assert len(set(digests)) == 4
    assert digests[-1] == sha256(" ".join(ring.digest() for ring in replay.rings).encode()).hexdigest()

    one = Replay([8], LAYOUT)
    taped(one.rings[0]).append(2)
    assert one.digest() == replay.rings[0].digest()
    one.free()


def test_a_ring_in_another_process_is_the_same_range_of_the_same_memory(replay):
    theirs = pickle.loads(ForkingPickler.dumps(replay.rings[1]))
    tape = taped(replay.rings[1])
    tape.ring = theirs
    tape.append(4).append(4)

    tape.holds(replay.rings[1], 3, 8)
    assert replay.rings[0].cursor == replay.rings[2].cursor == 0
    theirs.free()


def test_any_of_them_frees_the_memory_of_all():
    rings = open_rings([4, 4], LAYOUT)
    rings[1].free()

    with pytest.raises(BlockFreed):
        _ = rings[0].cursor


def test_rows_go_back_to_the_ring_that_they_came_from(replay):
    tape = taped(replay.rings[2])
    tape.append(3).append(1)
    other = Replay([8, 5, 3], LAYOUT)
    rows = np.concatenate([part.copy() for part in replay.rings[2].read(1, 4)])
    other.rings[2].restore(1, rows, replay.rings[2].versions(1, 4))

    tape.holds(other.rings[2], 1, 4)
    assert rows.shape == (3, WIDTH)
    assert other.held == 3
    other.free()
