"""Part files and their merge: cut, full, old and many."""

from trace_judge import FakeClock, merged, named

from unilab.telemetry.trace import Tracer, clear_trace, merge_trace
from unilab.telemetry.trace_recorder import FLUSH_EVENTS


def test_the_parts_of_all_processes_become_one_file_and_go(tmp_path):
    for process in ("learner", "collector-0"):
        tracer = Tracer(process, run_dir=tmp_path)
        with tracer.span("act"):
            pass
        tracer.close()
        tracer.close()

    events = merged(tmp_path)
    assert {e["args"]["name"] for e in named(events, "process_name")} == {"learner", "collector-0"}
    assert len(named(events, "act")) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]


def test_a_part_cut_anywhere_merges_all_its_whole_lines(tmp_path):
    tracer = Tracer("collector-0", run_dir=tmp_path)
    for step in range(3):
        with tracer.span("env_step", step=step):
            pass
    tracer.close()
    part = tmp_path / ".trace" / "collector-0.jsonl"
    whole = part.read_bytes()
    assert whole.count(b"\n") == 5  # two names, three spans

    for size in range(len(whole) + 1):
        part.parent.mkdir(exist_ok=True)
        part.write_bytes(whole[:size])
        lines = whole[:size].count(b"\n")
        # A line that lacks only its newline is whole too.
        assert len(merged(tmp_path)) - lines in (0, 1), size


def test_zeros_at_the_end_of_a_part_are_dropped(tmp_path):
    tracer = Tracer("learner", run_dir=tmp_path)
    tracer.close()
    part = tmp_path / ".trace" / "learner.jsonl"
    part.write_bytes(part.read_bytes() + b"\0" * 100 + b"\xff\n{}\n[1]\nNaN\n")

    assert {e["name"] for e in merged(tmp_path)} == {"process_name", "thread_name"}


def test_parts_of_an_earlier_start_can_be_cleared(tmp_path):
    clear_trace(tmp_path)
    Tracer("collector-9", run_dir=tmp_path).close()
    clear_trace(tmp_path)
    assert merge_trace(tmp_path) is None


def test_100k_events_keep_the_buffer_bounded_and_all_arrive(tmp_path):
    tracer = Tracer("learner", run_dir=tmp_path)
    recorder = tracer._mine.recorder
    longest = 0
    for _ in range(100_000):
        with tracer.span("update"):
            pass
        longest = max(longest, len(recorder.lines))
    tracer.close()

    assert longest < FLUSH_EVENTS
    assert recorder.lines == []
    assert len(named(merged(tmp_path), "update")) == 100_000


def test_a_second_old_event_is_on_disk_at_the_next_event(tmp_path):
    clock = FakeClock()
    tracer = Tracer("collector-0", run_dir=tmp_path, clock=clock)
    part = tmp_path / ".trace" / "collector-0.jsonl"

    def spans_on_disk():
        return part.read_text().count('"ph":"X"')

    for seconds, on_disk in ((0, 1), (0.5, 1), (0.4, 1), (0.2, 4)):
        clock.pass_ns(int(seconds * 1e9))
        with tracer.span("act"):
            pass
        assert spans_on_disk() == on_disk


def test_past_its_size_a_part_is_cut_with_a_notice_and_a_count(tmp_path):
    clock = FakeClock()
    tracer = Tracer("learner", run_dir=tmp_path, max_bytes=400, clock=clock)
    for _ in range(5):
        clock.pass_ns(2_000_000_000)  # each event is written at once
        with tracer.span("update"):
            pass
    tracer.close()

    kept = 5 - tracer.dropped
    events = merged(tmp_path)
    assert 0 < kept < 5
    assert len(named(events, "update")) == kept
    (notice,) = [e for e in events if e["ph"] == "i"]
    assert notice["name"] == f"trace cut: {tracer.dropped} events dropped"
    assert notice["ts"] == 10_000_000.0  # at the end, so that the trace spans the run


def test_a_full_disk_ends_the_trace_not_the_run(tmp_path):
    tracer = Tracer("learner", run_dir=tmp_path)
    with open("/dev/full", "wb", buffering=0) as full:
        tracer._part._file.close()
        tracer._part._file = full
        with tracer.span("update"):
            pass
        tracer.close()

    assert tracer.dropped == 1
    assert tracer.take_totals().keys() == {"update"}


def test_a_line_that_a_full_disk_cut_does_not_swallow_the_notice(tmp_path):
    class AlmostFull:
        """Takes the first 10 bytes of the first write, as a disk does that then gets room again."""

        closed = False

        def __init__(self, file):
            self.file, self.room = file, 10

        def write(self, data):
            taken = self.file.write(data[: self.room])
            self.room = None
            return taken

        def close(self):
            self.file.close()

    tracer = Tracer("learner", run_dir=tmp_path)
    tracer._part._file = AlmostFull(tracer._part._file)
    with tracer.span("update"):
        pass
    tracer.close()

    names = [e["name"] for e in merged(tmp_path)]
    assert names == ["process_name", "thread_name", "trace cut: 1 events dropped"]
