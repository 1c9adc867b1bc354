"""Checkpoints of a run with several collectors: a ring each, saved, shared, loaded and waited for by itself."""

import os
import threading

import numpy as np
import pytest
from run_states import state_of, step_in
from tape import LAYOUT, WIDTH, Tape

from unilab.checkpoint import Checkpoints, load_replay, preload, store
from unilab.checkpoint.load import _Filling, _newest
from unilab.checkpoint.write import write_replay
from unilab.errors import ConfigError
from unilab.replay.ring import RANDOM_POLICY, open_rings

CAPACITIES, CHUNK = (50, 30), 5


class Run:
    """Two rings next to their oracles."""

    def __init__(self, directory):
        self.rings = open_rings(CAPACITIES, LAYOUT)
        self.tapes = [Tape(capacity) for capacity in CAPACITIES]
        for tape, ring in zip(self.tapes, self.rings, strict=True):
            tape.ring.free()
            tape.ring = ring
        self.store = Checkpoints(directory, keep=0, rings=self.rings)

    def advance(self, *chunks):
        for tape, count in zip(self.tapes, chunks, strict=True):
            for _ in range(count):
                tape.append(CHUNK)
        return self

    @property
    def rows(self):
        return [(max(0, t.stop + CHUNK - t.ring.capacity), t.stop) for t in self.tapes]

    def begin(self):
        stop, rows = sum(tape.stop for tape in self.tapes), self.rows
        self.store.begin(stop, state_of(stop), {}, rows=rows)
        return rows

    def save(self):
        self.begin()
        return self.store.wait()

    def check(self, path, rows):
        rings = open_rings(CAPACITIES, LAYOUT)
        load_replay(path, rings)
        for tape, ring, span in zip(self.tapes, rings, rows, strict=True):
            tape.holds(ring, *span)
        rings[0].free()


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "checkpoints")
    yield run
    run.store.close()
    assert run.store.failures == []


def files(path, ring):
    return sorted(path.glob(f"replay{ring or ''}_*.rows"))


def inodes(paths):
    return [os.stat(path).st_ino for path in paths]


@pytest.mark.parametrize("chunks", [(0, 0), (3, 0), (0, 2), (12, 3), (3, 20), (33, 17)])
def test_rings_of_any_fill_come_back_with_their_numbers_and_versions(run, chunks):
    path = run.advance(*chunks).save()

    assert step_in(path) == CHUNK * sum(chunks)
    run.check(path, run.rows)


def test_a_segment_says_its_ring(run):
    path = run.advance(12, 3).save()

    assert sorted(file.name for file in path.glob("*.rows")) == [
        "replay1_000000000000_000000000015.rows",
        "replay_000000000015_000000000060.rows",
    ]


def test_only_the_ring_that_has_new_rows_is_written_again(run):
    first = run.advance(4, 4).save()
    before = run.rows
    second = run.advance(0, 4).save()

    assert inodes(files(first, 0)) == inodes(files(second, 0))
    assert inodes(files(first, 1)) != inodes(files(second, 1))
    run.check(first, before)
    run.check(second, run.rows)


def test_a_run_that_goes_on_links_the_segments_of_every_ring(run, tmp_path):
    loaded = run.advance(8, 5).save()
    rings = open_rings(CAPACITIES, LAYOUT)
    again = Checkpoints(tmp_path / "again", keep=0, rings=rings)
    again.adopt(loaded, load_replay(loaded, rings))
    again.begin(65, state_of(65), {}, rows=run.rows)
    saved = again.wait()

    for ring in (0, 1):
        assert inodes(files(loaded, ring)) == inodes(files(saved, ring))
    run.check(saved, run.rows)
    again.close()
    rings[0].free()


def test_a_save_is_waited_for_ring_by_ring(run, monkeypatch):
    """The rows of the first ring are read, those of the second are not yet: only the second must not be overwritten."""
    held, go_on = threading.Event(), threading.Event()

    def held_up(draft, ring, *args):
        if ring.index == 1:
            held.set()
            assert go_on.wait(60)
        return write_replay(draft, ring, *args)

    monkeypatch.setattr(store, "write_replay", held_up)
    (_, _), (low, _) = rows = run.advance(20, 20).begin()
    assert held.wait(60)
    run.store.allow_overwrite([10**12, low])  # returns at once
    waiting = threading.Thread(target=run.store.allow_overwrite, args=([0, low + 1],))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    go_on.set()
    waiting.join(60)

    assert not waiting.is_alive()
    run.check(run.store.wait(), rows)


def test_another_number_of_rings_is_refused(run):
    path = run.advance(2, 2).save()
    rings = open_rings([100], LAYOUT)

    with pytest.raises(ConfigError, match="was saved with num_collectors=2, this run has 1"):
        load_replay(path, rings)
    rings[0].free()


# ------------------------------------------------------------ the replay of another run


@pytest.mark.parametrize("shares", [(20,), (7, 13), (0, 9, 1), (40,), (65,)])
def test_the_newest_rows_of_each_ring_are_dealt_out_to_the_rings_of_another_run(run, shares):
    path = run.advance(9, 4).save()  # 45 and 20 rows
    rings = open_rings([80] * len(shares), LAYOUT)
    preload(path, rings, shares)
    got = [row for ring in rings for part in ring.read(ring.oldest, 0) for row in part.tolist()]
    first = _newest([45, 20], sum(shares))[0]
    rows = [tape.rows for tape in run.tapes]

    assert [(ring.oldest, ring.cursor) for ring in rings] == [(-share, 0) for share in shares]
    assert got == np.concatenate([rows[0][45 - first :], rows[1][20 - sum(shares) + first :]]).tolist()
    assert all((ring.versions(ring.oldest, 0) == RANDOM_POLICY).all() for ring in rings)
    rings[0].free()


@pytest.mark.parametrize(
    ("held", "wanted", "taken"),
    [
        ([30, 10], 20, [15, 5]),
        ([45, 20], 65, [45, 20]),
        ([45, 20], 1, [0, 1]),
        ([0, 8], 4, [0, 4]),
        ([0, 0], 0, [0, 0]),
    ],
)
def test_of_each_ring_the_same_share_is_taken(held, wanted, taken):
    assert _newest(held, wanted) == taken


def test_shares_add_up_and_take_no_row_that_is_not_there():
    rng = np.random.default_rng(0)
    for _ in range(500):
        held = rng.integers(0, 50, rng.integers(1, 6)).tolist()
        wanted = int(rng.integers(0, sum(held) + 1))
        taken = _newest(held, wanted)
        assert sum(taken) == wanted
        assert all(0 <= some <= there for some, there in zip(taken, held, strict=True))


def test_rows_fill_one_ring_after_the_other_whatever_the_pieces_they_come_in():
    rows = np.arange(7 * WIDTH, dtype=np.float32).reshape(7, WIDTH)
    for cuts in ([], [1], [3], [5], [2, 3, 6], [1, 2, 3, 4, 5, 6]):
        rings = open_rings([9, 9, 9], LAYOUT)
        into = _Filling(rings, (3, 0, 4))
        for piece in np.split(rows, cuts):
            into.add(piece)
        held = [np.concatenate([*ring.read(ring.oldest, 0), np.empty((0, WIDTH))]).tolist() for ring in rings]
        assert held == [rows[:3].tolist(), [], rows[3:].tolist()]
        rings[0].free()
