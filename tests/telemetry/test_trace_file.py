"""One file for all processes: cut, full, removed, shared and of an earlier start."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trace_judge import FakeClock, complaints, ended, named, strict, traced

from unilab.telemetry import trace_file, trace_track
from unilab.telemetry.trace_file import TraceFile, TraceFull, begin_trace, end_trace, was_cut

LINE = '{"ph":"i","name":"x","pid":1,"tid":1,"ts":0},\n'


def test_the_events_of_all_processes_go_to_one_file_that_ends_as_strict_json(tmp_path):
    for process in ("learner", "collector-0"):
        tracer = traced(tmp_path, process, guest=process != "learner")
        with tracer.span("act"):
            pass
        tracer.close()
        tracer.close()

    events = ended(tmp_path)
    assert {e["args"]["name"] for e in named(events, "process_name")} == {"learner", "collector-0"}
    assert len(named(events, "act")) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]


def test_an_empty_trace_ends_as_an_empty_array(tmp_path):
    begin_trace(tmp_path)

    assert strict(end_trace(tmp_path).read_text()) == []


def test_wherever_a_kill_cuts_it_the_next_writer_and_the_end_make_it_whole(tmp_path):
    path = begin_trace(tmp_path)
    whole = b"[\n" + LINE.encode() * 3
    for size in range(2, len(whole) + 1):
        lines = whole[2:size].count(b"\n")
        path.write_bytes(whole[:size])
        assert len(strict(end_trace(tmp_path).read_text())) == lines, size

        path.write_bytes(whole[:size])
        file = TraceFile(path, 10**6)
        file.append(LINE)
        file.close()
        assert len(strict(end_trace(tmp_path).read_text())) == lines + 1, size


def test_a_cut_line_longer_than_one_look_back_is_removed(tmp_path):
    path = begin_trace(tmp_path)
    path.write_bytes(b"[\n" + LINE.encode() + b'{"' + b"x" * 3 * trace_file._LOOK_BACK)

    assert len(strict(end_trace(tmp_path).read_text())) == 1


def test_two_writers_never_mix_their_lines(tmp_path):
    path = begin_trace(tmp_path)
    code = (
        "import sys; from pathlib import Path; from unilab.telemetry.trace_file import TraceFile\n"
        "file = TraceFile(Path(sys.argv[1]), 10**9)\n"
        'line = \'{"ph":"i","name":"\' + sys.argv[2] * 100 + \'"},\\n\'\n'
        "for i in range(300): file.append(line * (1 + i % 50))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), letter]) for letter in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]

    names = [e["name"] for e in strict(end_trace(tmp_path).read_text())]
    assert {name: names.count(name) for name in set(names)} == {"a" * 100: 300 * 51 // 2, "b" * 100: 300 * 51 // 2}


def test_a_killed_writer_blocks_nobody(tmp_path):
    path = begin_trace(tmp_path)
    code = (
        "import fcntl, os, sys, time; fd = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX); os.write(fd, b'{\"ph\":'); print('locked', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"locked\n"
    file = TraceFile(path, 10**6)
    with pytest.raises(BlockingIOError):
        file.append(LINE)
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    file.append(LINE)

    assert path.read_text() == "[\n" + LINE


def test_lines_that_meet_a_held_lock_are_written_later(tmp_path):
    tracer = traced(tmp_path, "collector-0")
    append, refusals = TraceFile.append, iter([True] * 2)

    def busy(self, lines, **options):
        if next(refusals, False):
            raise BlockingIOError(errno.EAGAIN, "busy")
        append(self, lines, **options)

    tracer._writer._file.append = busy.__get__(tracer._writer._file)
    with tracer.span("act"):
        pass
    deadline = time.monotonic() + 20
    while "act" not in (tmp_path / "trace.json").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    tracer.close()

    assert tracer.dropped == 0
    assert len(named(ended(tmp_path), "act")) == 1


def test_an_earlier_start_keeps_its_trace_under_a_number(tmp_path):
    for text in ("first", "second", "third"):
        begin_trace(tmp_path).write_text(text)

    assert [(tmp_path / name).read_text() for name in ("trace_1.json", "trace_2.json", "trace.json")] == [
        "first",
        "second",
        "third",
    ]


def test_a_trace_is_never_there_without_its_first_events(tmp_path, monkeypatch):
    seen = []
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda self, to: (seen.append(to.exists()), rename(self, to)))
    path = begin_trace(tmp_path, LINE)

    assert seen == [False]  # it came under its name in one step
    assert path.read_text() == "[\n" + LINE


def test_a_trace_that_was_ended_takes_nothing_more(tmp_path):
    path = begin_trace(tmp_path)
    end_trace(tmp_path)
    with pytest.raises(FileExistsError):
        TraceFile(path, 10**6).append(LINE)

    assert strict(path.read_text()) == []


def test_a_removed_file_is_told(tmp_path):
    path = begin_trace(tmp_path)
    file = TraceFile(path, 10**6)
    file.append(LINE)
    path.unlink()

    with pytest.raises(FileNotFoundError, match=r"trace\.json was removed"):
        file.append(LINE)
    with pytest.raises(OSError, match="No such file"):
        end_trace(tmp_path)


def test_what_does_not_fit_below_the_limit_is_refused_whole(tmp_path):
    path = begin_trace(tmp_path)
    file = TraceFile(path, 2 + 2 * len(LINE))
    file.append(LINE)
    with pytest.raises(TraceFull):
        file.append(LINE * 2)
    file.append(LINE)

    assert path.stat().st_size == 2 + 2 * len(LINE)


def test_past_its_size_a_trace_is_cut_with_a_notice_and_a_count(tmp_path):
    clock = FakeClock()
    tracer = traced(tmp_path, max_bytes=600, clock=clock)
    for _ in range(9):
        clock.pass_ns(1_000_000_000)
        with tracer.span("update"):
            pass
    tracer._writer._pending[:] = []  # the names, not yet written
    tracer.close()

    events = strict(end_trace(tmp_path).read_text())
    assert was_cut(tmp_path / "trace.json")
    assert tracer.lost is None
    assert named(events, "update") == []
    (notice,) = [e for e in events if e["ph"] == "i"]
    assert notice["name"] == f"trace cut: {tracer.dropped} events dropped"
    assert notice["ts"] == 9_000_000.0  # at the end, so that the trace spans the run


def test_a_disk_without_room_ends_the_trace_not_the_run(tmp_path, monkeypatch):
    tracer = traced(tmp_path)
    with tracer.span("before"):
        pass
    deadline = time.monotonic() + 20
    while "before" not in (tmp_path / "trace.json").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    size = (tmp_path / "trace.json").stat().st_size

    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))  # as a disk with 10 bytes left
    with tracer.span("update"):
        pass
    tracer.close()

    assert tracer.lost == "No space left on device"
    assert tracer.dropped >= 1
    assert tracer.take_totals().keys() == {"before", "update"}
    assert (tmp_path / "trace.json").stat().st_size == size
    assert complaints(strict(end_trace(tmp_path).read_text())) == []


def test_a_thread_buffers_no_more_than_so_many_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_track, "MAX_LINES", 10)
    monkeypatch.setattr(TraceFile, "append", lambda *_, **__: (_ for _ in ()).throw(BlockingIOError()))
    tracer = traced(tmp_path)
    for _ in range(50):
        with tracer.span("update"):
            pass

    assert tracer.dropped >= 40 - 1
    tracer.close()


def test_100k_events_all_arrive(tmp_path):
    tracer = traced(tmp_path)
    for number in range(100_000):
        with tracer.span("update"):
            if tracer.dropped:
                break
        if number % 5_000 == 0:
            time.sleep(0.02)  # 100 times as many a second as a run has; what is faster than the disk is dropped
    tracer.close()

    assert tracer.dropped == 0
    assert len(named(ended(tmp_path), "update")) == 100_000
