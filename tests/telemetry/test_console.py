"""What lands on the stream, byte for byte."""

import io
import os
import subprocess
import sys

import pytest

from unilab.telemetry.console import Console, number


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and counts its writes."""

    def __init__(self, tty=False):
        super().__init__()
        self.tty = tty
        self.writes = []

    def isatty(self):
        return self.tty

    def write(self, text):
        self.writes.append(text)
        return super().write(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1_200_000, "1200000"),
        (12.345678, "12.35"),
        (1234.5678, "1235"),
        (9999.96, "10000"),
        (123456.7, "123457"),
        (0.000123456, "0.0001235"),
        (3e-7, "3e-07"),
        (-1.0, "-1"),
        (1e20, "1e+20"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_four_digits_and_large_ones_all(value, text):
    assert number(value) == text


def test_a_line_is_one_write_of_key_value_pairs():
    stream = Terminal()
    Console(stream).line(env_steps=12000, done="1.2%", fps=1234.5)

    assert stream.writes == ["env_steps=12000 done=1.2% fps=1234\n"]


def test_brackets_odd_paths_and_long_lines_are_printed_unchanged():
    path = "runs[/b] [seed3]/" + "x" * 200 + "/\u00e9 [bold]"
    stream = Terminal()
    console = Console(stream)
    console.note(path)
    console.line(run=path)
    console.header([("run", path), ("device", "cpu")])
    console.error(f"[/tmp/x] {path}\n  at line 2\n")

    assert stream.writes == [
        f"{path}\n",
        f"run={path}\n",
        f"run     {path}\ndevice  cpu\n",
        f"error: [/tmp/x] {path}\n  at line 2\n",
    ]


def test_a_value_never_breaks_its_line():
    stream = Terminal()
    Console(stream).line(run="a\nb", n=1)

    assert stream.getvalue() == "run=a\\nb n=1\n"


@pytest.mark.parametrize(("tty", "no_color", "kept"), [(False, "", False), (True, "1", False), (True, "", True)])
def test_escape_codes_reach_only_a_terminal_without_no_color(monkeypatch, tty, no_color, kept):
    monkeypatch.setenv("NO_COLOR", no_color)
    stream = Terminal(tty)
    console = Console(stream)
    console.note("\x1b[1;31mred\x1b[0m \x1b]0;title\x07end\x1b")

    assert console.plain is not kept
    assert stream.getvalue() == ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07end\x1b\n" if kept else "red end\n")


def test_a_name_that_the_stream_cannot_encode_is_escaped_not_lost():
    raw = io.BytesIO()
    console = Console(io.TextIOWrapper(raw, encoding="ascii"))
    console.note("caf\u00e9 \udcff")
    console.note("next")

    assert raw.getvalue() == b"caf\\xe9 \\udcff\nnext\n"


def test_a_stream_that_was_closed_or_never_there_silences_the_console_only():
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        console = Console(stream)
        console.note("x")
        console.line(a=1)
        console.error("y")


def test_a_broken_stream_is_left_alone_after_its_first_error():
    class Broken(Terminal):
        def write(self, text):
            super().write(text)
            raise OSError(5, "Input/output error")

    stream = Broken()
    console = Console(stream)
    console.note("x")
    console.note("y")

    assert stream.writes == ["x\n"]


def test_a_reader_that_lags_costs_one_line_only():
    class Lagging(Terminal):
        def write(self, text):
            super().write(text)
            if len(self.writes) == 1:
                raise BlockingIOError(11, "Resource temporarily unavailable", 0)

    stream = Lagging()
    console = Console(stream)
    console.note("x")
    console.note("y")

    assert stream.writes == ["x\n", "y\n"]


def test_a_run_whose_stdout_pipe_closes_goes_on_and_exits_0():
    code = (
        "import sys\n"
        "from unilab.telemetry.console import Console\n"
        "console = Console(sys.stdout)\n"
        "console.note('first')\n"
        "sys.stdin.read()\n"  # until the pipe is gone
        "for _ in range(3): console.note('later')\n"
        "print('from an env')\n"
        "sys.stderr.write('went on')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"first\n"
    process.stdout.close()
    process.stdin.close()
    assert process.stderr.read() == b"went on"
    assert process.wait(timeout=60) == 0
    process.stderr.close()


def test_a_line_is_one_system_write(tmp_path):
    reader, writer = os.pipe()
    with open(writer, "w") as stream:
        Console(stream).line(text="x" * 3000, n=1)
        assert os.read(reader, 65536) == b"text=" + b"x" * 3000 + b" n=1\n"
    os.close(reader)
