"""Reads a trace of a killed run as ui.perfetto.dev does: a JSON array, event after event, up to where the file stops.

Perfetto, as its trace processor shows: a file needs one whole event; an event that is cut at the end is left out;
spans of one track that overlap without nesting are dropped, and counted as errors.
"""

import json
import re

_BETWEEN = re.compile(r"[\s,]*")


def read_cut(text):
    """All whole events; fails on anything but a cut last one."""
    assert text.startswith("[")
    decoder = json.JSONDecoder(parse_constant=_refuse)
    events, at = [], 1
    while (at := _BETWEEN.match(text, at).end()) < len(text) and text[at] != "]":
        try:
            event, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            assert "\n" not in text[at:], f"an event in the middle is broken: {text[at : at + 200]}"
            break
        events.append(event)
    assert events, "a file without an event is refused"
    return events


def complaints(events):
    """What a viewer would drop, or show without a name."""
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    found, tracks = [], {}
    for e in events:
        if e["ph"] == "M":
            continue
        if e["pid"] not in processes or (e["ph"] in "Xi" and (e["pid"], e["tid"]) not in threads):
            found.append(f"unnamed: {e}")
        if e["ts"] < 0 or e.get("dur", 0) < 0:
            found.append(f"negative: {e}")
        if e["ph"] == "X":
            start = round(e["ts"] * 1000)
            tracks.setdefault((e["pid"], e["tid"]), []).append((start, start + round(e["dur"] * 1000), e["name"]))
    return found + [line for spans in tracks.values() for line in _overlaps(spans)]


def _overlaps(spans):
    found, around = [], []
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        while around and around[-1][1] <= start:
            around.pop()
        if around and end > around[-1][1]:
            found.append(f"{name} at {start} ns overlaps {around[-1][2]}")
        around.append((start, end, name))
    return found


def _refuse(constant):
    raise ValueError(constant)
