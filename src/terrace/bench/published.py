# SPDX-License-Identifier: GPL-2.0
"""Compare published figures with those of the timing model, with the known deviation of each. Pure.

Rows marked `calibrated` are those from which the machine's unpublished bandwidth was taken: they
show that the model reproduces its own input, the other rows are predictions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terrace.bench.loaded_latency import STRETCHES, Stretch
from terrace.bench.rates import bus_rate, stream_rate, time_of
from terrace.bench.validate import Results

# Allowed change of a row from its known deviation, in percent or points: three times the known
# noise. Two equal runs differ by about 1 % (docs/reference/bench.md), unless stated otherwise.
SLACK = 3.0
# Four runs of each of the first three were within 0.3 of each other's mean.
_STREAM_SLACK = 1.0
# Two runs of each differed by up to 1.9 % in rates and 2.6 points in ratios.
_MLC_SLACK = 6.0


@dataclass(frozen=True)
class Row:
    """One line of the table: a published figure and ours.

    `error` is the difference in words, `off` the same as a number, in points for a figure in
    percent, otherwise in percent; `known` is the recorded deviation. Either is None if the row is
    not judged.
    """

    what: str
    machine: str
    published: str
    modelled: str
    error: str
    off: float | None
    known: float | None
    calibrated: bool
    note: str = ""
    slack: float = SLACK

    @property
    def limit(self) -> float | None:
        """Get the allowed deviation."""
        return None if self.known is None else self.known + self.slack

    @property
    def worse(self) -> bool:
        """Whether the deviation is larger than the recorded one."""
        return self.limit is not None and self.off is not None and self.off > self.limit


@dataclass(frozen=True)
class Published:
    """A published figure: `low` to `high` if a range was given, and the recorded deviation of ours.

    `known` is what `bench validate table` printed for the results in bench/validate when they were
    last measured; the note gives the reason if it is large. None: not measured yet. `slack` is the
    allowed change from it.
    """

    what: str
    machine: str
    unit: str
    known: float | None
    low: float
    high: float
    needs: tuple[str, ...]
    value: Callable[[Results], float]
    calibrated: bool = False
    note: str = ""
    slack: float = SLACK

    def row(self, results: Results) -> Row | None:
        """Get the row with our figure; None if a result is missing."""
        if any(name not in results for name in self.needs):
            return None
        got = self.value(results)
        near = min(max(got, self.low), self.high)
        off = got - near if self.unit == "%" else (got / near - 1) * 100
        error = f"{off:+.0f} points" if self.unit == "%" else f"{off:+.1f} %"
        sign = "+" if self.unit == "%" else ""
        said = f"{self.low:{sign}g}" + (f" to {self.high:{sign}g}" if self.high != self.low else "")
        return Row(
            what=self.what,
            machine=self.machine,
            published=f"{said} {self.unit}",
            modelled=f"{got:{sign}.1f} {self.unit}",
            error=error if off else "within",
            off=abs(off),
            known=self.known,
            calibrated=self.calibrated,
            note=self.note,
            slack=self.slack,
        )


def _percent(one: str, other: str, figure: Callable[[Mapping[str, Any]], float]) -> Callable[[Results], float]:
    """Get the difference of the first run's figure from the second's in percent."""
    return lambda results: (figure(results[one]) / figure(results[other]) - 1) * 100


def _rate_of(name: str, figure: Callable[[Mapping[str, Any]], float]) -> Callable[[Results], float]:
    return lambda results: figure(results[name])


_S, _M, _X = "seed-002-stream", "seed-002-mlc", "seed-002-xsbench"
_STREAM_NOTE = "mean over the four kernels, weighted by time"
_SUM_NOTE = (
    "published is more than one bandwidth a node can give: 13 of 17 pages on DRAM make +31 % at best, and an expander "
    "that gives its 17th at the rate of default interleave +29 % (W2). The rest is ours: no node is quite saturated "
    "while all are in use"
)
_MIX_NOTE = "generators alone, in time of their own CPUs"
_XS_NOTE = (
    "of the machine's bandwidth only the ratio is published; the rest is chosen so that the first of these rows is "
    "near (topologies/seed-002-xsbench.toml)"
)

# Name, machine, unit, recorded deviation, the published figure, runs, our figure.
PUBLISHED: tuple[Published, ...] = (
    Published("Stream, DRAM only", _S, "GB/s", 2,
               205.1, 205.1, ("stream-dram",), _rate_of("stream-dram", stream_rate),
               True, _STREAM_NOTE, slack=_STREAM_SLACK),
    Published("Stream, CXL only", _S, "GB/s", 1.3,
               23.4, 23.4, ("stream-cxl",), _rate_of("stream-cxl", stream_rate),
               True, _STREAM_NOTE, slack=_STREAM_SLACK),
    Published("Stream, default interleave against DRAM", _S, "%", 1.6,
               -78, -78, ("stream-interleave", "stream-dram"),
               _percent("stream-interleave", "stream-dram", stream_rate), slack=_STREAM_SLACK),
    Published("Stream, weighted 9:1 against DRAM", _S, "%", 0,
               -6, 4, ("stream-weighted", "stream-dram"),
               _percent("stream-weighted", "stream-dram", stream_rate), slack=_STREAM_SLACK),
    Published("Stream, weights 9:1 of its arrays alone (mbind2) against DRAM", _S, "%", 0.5,
               2.5, 4,
               ("stream-range", "stream-dram"),
               _percent("stream-range", "stream-dram", stream_rate), slack=_STREAM_SLACK),
    Published("MLC W2, DRAM only", _M, "GB/s", 0.9,
               298.8, 298.8, ("mlc-w2-dram",),
               _rate_of("mlc-w2-dram", bus_rate), True, _MIX_NOTE, slack=_MLC_SLACK),
    Published("MLC W5, DRAM only", _M, "GB/s", 3.7,
               273.2, 273.2, ("mlc-w5-dram",),
               _rate_of("mlc-w5-dram", bus_rate), True, _MIX_NOTE, slack=_MLC_SLACK),
    Published("MLC W2, default interleave", _M, "GB/s", 1.7,
               113.04, 113.04, ("mlc-w2-interleave",),
               _rate_of("mlc-w2-interleave", bus_rate), True, _MIX_NOTE, slack=_MLC_SLACK),
    Published("MLC W5, default interleave", _M, "GB/s", 2.8,
               117.23, 117.23, ("mlc-w5-interleave",),
               _rate_of("mlc-w5-interleave", bus_rate), True, _MIX_NOTE, slack=_MLC_SLACK),
    Published("MLC W2, weighted against DRAM", _M, "%", 20.1,
               38, 38, ("mlc-w2-weighted", "mlc-w2-dram"),
               _percent("mlc-w2-weighted", "mlc-w2-dram", bus_rate), note=_SUM_NOTE, slack=_MLC_SLACK),
    Published("MLC W5, weighted against DRAM", _M, "%", 11.1,
               40, 40, ("mlc-w5-weighted", "mlc-w5-dram"),
               _percent("mlc-w5-weighted", "mlc-w5-dram", bus_rate), note=_SUM_NOTE, slack=_MLC_SLACK),
    Published("XSBench run time, default interleave against DRAM", _X, "%", 4.1,
               52.5, 52.5,
               ("xsbench-interleave", "xsbench-dram"),
               _percent("xsbench-interleave", "xsbench-dram", time_of), True, _XS_NOTE),
    Published("XSBench run time, weighted against default interleave", _X, "%", 3.2,
               -47, -47,
               ("xsbench-weighted", "xsbench-interleave"),
               _percent("xsbench-weighted", "xsbench-interleave", time_of), note=_XS_NOTE),
    Published("XSBench run time, weighted against DRAM", _X, "%", 2.5,
               -19, -19, ("xsbench-weighted", "xsbench-dram"),
               _percent("xsbench-weighted", "xsbench-dram", time_of), note=_XS_NOTE),
)  # fmt: skip

_CURVE_NOTE = (
    "the rows are checked against the curve that the model was given, in the guest; a point is measured when the "
    "prober missed often enough (src/terrace/bench/loaded_latency.py says how often that is, and why)"
)


def _curve_row(stretch: Stretch, results: Results) -> Row | None:
    found = stretch.look(results)
    if found is None:
        return None
    return Row(
        what=f"Latency over bandwidth: {stretch.what}",
        machine=_M,
        published=stretch.expected,
        modelled=found.text,
        error=found.verdict,
        off=found.off,
        known=stretch.known,
        calibrated=True,
        note=_CURVE_NOTE,
    )


def validation_table(results: Results) -> list[Row]:
    """Get the rows that have results."""
    rows = [published.row(results) for published in PUBLISHED]
    rows += [_curve_row(stretch, results) for stretch in STRETCHES]
    return [row for row in rows if row]


def table_text(rows: Sequence[Row]) -> str:
    """Format the table in Markdown."""
    lines = [
        "| Figure | Machine | Published | Modelled | Error | May be off by | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        kind = "calibrated" if row.calibrated else "predicted"
        limit = "-" if row.limit is None else f"{row.limit:.1f}"
        cells = (row.what, f"`{row.machine}`", row.published, row.modelled, row.error, limit, kind)
        lines.append(f"| {' | '.join(cells)} |")
    notes = dict.fromkeys(row.note for row in rows if row.note)
    for note in notes:
        of = "; ".join(row.what for row in rows if row.note == note)
        lines += ["", f"{of}: {note}."]
    return "\n".join(lines) + "\n"


def worse_lines(rows: Sequence[Row]) -> list[str]:
    """List the rows with a larger deviation than recorded."""
    return [f"{row.what}: {row.error}, and may be off by {row.limit:.1f}" for row in rows if row.worse]
