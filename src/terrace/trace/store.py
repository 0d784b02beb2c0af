# SPDX-License-Identifier: GPL-2.0
"""The file of `terrace record`: lines of JSON, compressed by gzip; the first is the head, each
other one an event.

An event is a list: ns since the first read of the counters, number and name of the thread, name of
the event, its fields. The head has their number, so that a truncated file is detected.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast, get_args

from terrace.errors import TerraceError, UsageError
from terrace.files import open_regular, replace
from terrace.ops.diagnose import Reason, Severity
from terrace.trace.lines import BY_NAME, Event, kept
from terrace.trace.look import Owner, Task
from terrace.units import to_whole

FORMAT = "terrace.trace"
VERSION = 1
#: Longest line that `terrace record` writes.
_LINE_MAX = 64 << 20
#: Valid times; shorter and longer ones, and numbers of more than 64 bits, are not written by
#: `terrace record`.
_SECONDS = (1e-6, 1e9)
_MOST = 1 << 64


@dataclass(frozen=True)
class Head:
    """All of a recording except its events."""

    kernel: str
    host: str
    #: In ISO 8601, UTC.
    started: str
    seconds: float
    page_bytes: int
    #: None: no program was run.
    command: list[str] | None
    exit_code: int | None
    #: Events that were recorded, as system:name.
    enabled: list[str]
    #: Numbers of events in the file, of those that did not fit into the kernel's buffers, and of
    #: unreadable ones.
    events: int
    lost: int
    strange: int
    top_nodes: list[int]
    nodes: list[int]
    #: Counters of /proc/vmstat at the start and at the end.
    counters_before: dict[str, int]
    counters_after: dict[str, int]
    #: The reasons of `terrace status` at the start and at the end. None: recorded by an older tool.
    reasons_before: list[Reason] | None = None
    reasons_after: list[Reason] | None = None
    cgroups_before: list[Owner] = field(default_factory=list)
    cgroups_after: list[Owner] = field(default_factory=list)
    processes_before: list[Owner] = field(default_factory=list)
    processes_after: list[Owner] = field(default_factory=list)
    #: The processes of the threads at the end, by number.
    tasks: dict[str, Task] = field(default_factory=dict)
    #: The reason why the counters of cgroups are missing; None if they are present, and in files of
    #: earlier versions.
    cgroups_problem: str | None = None
    #: The processes that were recorded; empty: all.
    pids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Recording:
    """A file that was read."""

    head: Head
    events: list[Event]


class Writer:
    """Takes events one by one, and then the head."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._data = io.BytesIO()
        self._packed = gzip.GzipFile(fileobj=self._data, mode="wb", compresslevel=6, mtime=0)
        self.count = 0

    def add(self, event: Event) -> None:
        """Add one event."""
        line = [event.at_ns - self._since_ns, event.pid, event.comm, event.name, dict(event.fields)]
        self._packed.write(_line(line))
        self.count += 1

    def write(self, path: Path, head: Head) -> int:
        """Write the file in one step; return its size. Raises OSError, and then the old file is unchanged."""
        self._packed.close()
        first = gzip.compress(_line({"format": FORMAT, "version": VERSION, **asdict(head)}), mtime=0)
        # Two consecutive gzip members are one file for a reader.
        data = first + self._data.getvalue()
        replace(path, data)
        return len(data)


def _line(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def read(path: Path) -> Recording:
    """Read a recording.

    Raises UsageError if the file is not a recording, TerraceError if it is damaged or cannot be
    read.
    """
    try:
        with open_regular(path) as file:
            if file.read(2) != b"\x1f\x8b":
                raise UsageError(_foreign(path, file.read(16)))
            file.seek(0)
            with gzip.GzipFile(fileobj=file) as lines:
                return _read(path, lines)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file; `terrace record -o {path}` makes one") from error
    except OSError as error:
        why = error.strerror or f"the compressed data are damaged ({error})"
        raise TerraceError(f"{path}: {why}") from error
    except (EOFError, zlib.error) as error:
        raise TerraceError(f"{path}: the file is cut off or damaged ({error}); copy it again") from error


def _foreign(path: Path, rest: bytes) -> str:
    if rest.startswith(b"Dtracing"):
        return f"{path}: this is a file of trace-cmd (trace-cmd report shows it); here go files of `terrace record`"
    if not rest:
        return f"{path}: the file is empty; here go files of `terrace record`"
    return f"{path}: this is no file of `terrace record` (those are compressed by gzip)"


def _read(path: Path, lines: gzip.GzipFile) -> Recording:
    head = _head(path, lines.readline(_LINE_MAX))
    if head.events < 0:
        raise TerraceError(f"{path}:1: the head is not as `terrace record` writes it (events is {head.events})")
    # islice() takes no larger number, and no file has as many events.
    events = list(islice(_events(path, lines), min(head.events, sys.maxsize - 1) + 1))
    if len(events) != head.events:
        raise TerraceError(
            f"{path}: the file is cut off: it has {len(events)} events, and {head.events} were recorded; copy it again"
        )
    return Recording(head, events)


def _head(path: Path, line: bytes) -> Head:
    given = _parse(line)
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise UsageError(f"{path}: this is no file of `terrace record`: its first line does not say {FORMAT}")
    if given.get("version") != VERSION:
        raise UsageError(
            f"{path}: its format has the version {given.get('version')!r}, and this program reads {VERSION}: "
            "use the terrace that recorded it"
        )
    try:
        return _make(given)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TerraceError(f"{path}:1: the head is not as `terrace record` writes it ({error!r})") from error


def _make(given: dict[str, Any]) -> Head:
    """Create the head, with the type of each part checked."""
    command = given["command"]
    code = given["exit_code"]
    return Head(
        kernel=_text(given["kernel"]),
        host=_text(given["host"]),
        started=_text(given["started"]),
        seconds=_seconds(given["seconds"]),
        page_bytes=_int(given["page_bytes"]),
        command=None if command is None else [_text(word) for word in _list(command)],
        exit_code=None if code is None else _int(code),
        enabled=[_text(name) for name in _list(given["enabled"])],
        events=_int(given["events"]),
        lost=_int(given["lost"]),
        strange=_int(given["strange"]),
        top_nodes=[_int(node) for node in _list(given["top_nodes"])],
        nodes=[_int(node) for node in _list(given["nodes"])],
        counters_before=_numbers(given["counters_before"]),
        counters_after=_numbers(given["counters_after"]),
        reasons_before=_reasons(given.get("reasons_before")),
        reasons_after=_reasons(given.get("reasons_after")),
        cgroups_before=_owners(given["cgroups_before"]),
        cgroups_after=_owners(given["cgroups_after"]),
        processes_before=_owners(given["processes_before"]),
        processes_after=_owners(given["processes_after"]),
        tasks={
            str(_key(thread)): Task(_int(task["process"]), _text(task["name"]), _text(task["cgroup"]))
            for thread, task in given["tasks"].items()
        },
        cgroups_problem=None if (problem := given.get("cgroups_problem")) is None else _text(problem),
        pids=[int(pid) for pid in _list(given.get("pids", []))],
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _SECONDS[0] <= value <= _SECONDS[1]:
        raise ValueError("seconds is none")
    return float(value)


def _int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_MOST < value < _MOST:
        raise ValueError("a number is none of 64 bits")
    return value


def _key(value: str) -> int:
    found = to_whole(value, -1, _MOST)
    if found is None:
        raise ValueError("the number of a thread or a node is none")
    return found


def _numbers(given: dict[str, Any]) -> dict[str, int]:
    return {name: _int(value) for name, value in given.items()}


def _reasons(given: object) -> list[Reason] | None:
    if given is None:
        return None
    return [
        Reason(_text(one["id"]), _severity(one["severity"]), _text(one["message"]), _text(one["fix"]))
        for one in _list(given)
    ]


def _severity(value: object) -> Severity:
    for known in get_args(Severity):
        if value == known:
            return cast(Severity, known)
    raise ValueError(f"severity is {value!r}")


def _owners(given: list[dict[str, Any]]) -> list[Owner]:
    return [
        Owner(
            _text(one["name"]),
            None if one["pid"] is None else _int(one["pid"]),
            {str(_key(node)): _int(size) for node, size in one["nodes"].items()},
            *(None if one[name] is None else _int(one[name]) for name in ("promoted_pages", "demoted_pages")),
        )
        for one in _list(given)
    ]


def _events(path: Path, lines: gzip.GzipFile) -> Iterator[Event]:
    # A few bytes of gzip can expand to a line of gigabytes.
    for number, line in enumerate(iter(lambda: lines.readline(_LINE_MAX), b""), start=2):
        event = _event(_parse(line))
        if event is None:
            raise TerraceError(f"{path}:{number}: this line is no event as `terrace record` writes them: {line[:80]!r}")
        yield event


def _parse(line: bytes) -> object:
    """Parse a line of JSON; None if it is invalid."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_int(value: object) -> bool:
    return type(value) is int and -_MOST < value < _MOST


def _event(given: object) -> Event | None:
    if not isinstance(given, list) or len(given) != 5:
        return None
    at_ns, pid, comm, name, fields = given
    if not (_is_int(at_ns) and _is_int(pid) and isinstance(comm, str) and isinstance(fields, dict)):
        return None
    wanted = BY_NAME.get(name) if isinstance(name, str) else None
    found = None if wanted is None else kept(wanted, fields)
    return None if found is None else Event(at_ns, pid, comm, name, found)
