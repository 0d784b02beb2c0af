# SPDX-License-Identifier: GPL-2.0
"""Write docs/results.md and its pictures, from the results alone."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from terrace.bench import behind, blocks, experiment, placements, published, shape, store, tables, validate
from terrace.bench.experiment import Experiment
from terrace.bench.policies import POLICIES
from terrace.bench.scale import scale_text
from terrace.bench.tables import Document, Group
from terrace.lab.workloads import find_workload
from terrace.units import format_size

IMAGES = "images"
_ORDER = ("abench", "kvzipf", "phase", "xslookup", "scanhot", "bfs", "scale", "smoke")
_INTRO = """<!-- SPDX-License-Identifier: GPL-2.0 -->
# Results

Written by `./terrace bench report` from `bench/*/results/*.json`, one file for each run; never by hand. To measure an
experiment again: `./terrace bench run NAME`. The meaning of each column, its measurement and its limits:
[bench](reference/bench.md).

All times are of a model (QEMU, not hardware). Compare ratios between rows, not seconds. ± is half of the 95 % interval
over n seeds (t distribution); with n = 1 there is none, and small differences mean nothing.
"""

_VALIDATION = """## The timing model and published figures

Each machine with published figures has a topology (`topologies/seed-*`); `./terrace bench validate run` measures again.
"May be off by" is the known deviation, in percent or points, plus a margin: a row with a larger deviation fails a check
of the suite. The limits of the model: [timing model](explanation/timing-model.md).
"""
_PLACEMENTS = """## Weighted interleaving and other placements

The loads and machines of the mempolicy2 series (`topologies/seed-002-*`): speed in percent of DRAM only, the published
speed in parentheses. Weights of a load's arrays alone need the Terrace kernel; all other rows ran on stock.
"""
_SWEEP = """### Automatic weights and the best ones

Stream's arrays with other weights (mbind2): "automatic" are the weights of `terrace exec --weights firmware`, computed
from the bandwidths in the machine's HMAT.
"""
_FIRST_LOOK_S = 1.0
_TOO_SHORT = (
    "**Too short**: all runs ended within their first second, in which the stock kernel does not scan by default. "
    "The table shows the possible gain (oracle), and little about the other policies."
)


def write_all(path: Path) -> list[Path]:
    """Write the page and its pictures; return the written paths."""
    from terrace.bench.plots import draw

    found = [(item, store.read_current(item.folder / "results", item.cells())) for item in experiments()]
    written = [path]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(found, validation()), encoding="utf-8")
    for item, documents in found:
        if has_picture(item, documents):
            picture = path.parent / picture_name(item)
            picture.parent.mkdir(parents=True, exist_ok=True)
            draw(item, documents, picture)
            written.append(picture)
    return written


def write_excerpts() -> list[Path]:
    """Write the blocks of other pages from the results; return the written paths."""
    found = [(item, store.read_current(item.folder / "results", item.cells())) for item in experiments()]
    wanted = {**behind.pages(found), **blocks.pages(found)}
    for path, page in wanted.items():
        path.write_text(page, encoding="utf-8")
    return list(wanted)


def experiments() -> list[Experiment]:
    """Get all experiments, in the order of the page."""
    names = experiment.names()
    ordered = [name for name in _ORDER if name in names] + [name for name in names if name not in _ORDER]
    return [experiment.load(name) for name in ordered]


def picture_name(item: Experiment) -> str:
    """Get the path of an experiment's picture, from the page's folder."""
    return f"{IMAGES}/bench-{item.name}.svg"


def has_picture(item: Experiment, documents: Sequence[Document]) -> bool:
    """Whether there is a picture: not for smoke tests, without results, or if no memory is the fast one."""
    return (
        not item.tolerance
        and item.report not in (*experiment.EVEN_REPORTS, "deferral")
        and any(group.by_policy for group in tables.groups(item, documents))
    )


def validation() -> str:
    """Format the comparison of the timing model with published figures, from bench/validate/results."""
    results = validate.read_results()
    rows = published.validation_table(results)
    parts = [f"{_VALIDATION}\n{published.table_text(rows)}"] if rows else []
    for title, lines in ((_PLACEMENTS, placements.placement_lines(results)), (_SWEEP, placements.sweep_lines(results))):
        if lines:
            parts.append(title + "\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def text(found: Iterable[tuple[Experiment, Sequence[Document]]], *others: str) -> str:
    """Format the page: experiments, then `others`. Pure."""
    parts = [_INTRO]
    parts += [_section(item, documents) for item, documents in found if tables.groups(item, documents)]
    return "\n".join([*parts, *filter(None, others)])


def _section(item: Experiment, documents: Sequence[Document]) -> str:
    groups = tables.groups(item, documents)
    shown = [doc for group in groups for docs in group.by_policy.values() for doc in docs]
    lines = [f"## {item.name}", "", item.purpose, "", f"**Expected:** {item.expected}", ""]
    if item.found:
        lines += [f"**Found:** {item.found}", ""]
    lines += [_setup(item, shown), ""]
    if has_picture(item, documents):
        lines += [f"![{item.name}: gap closed, and how it came to it]({picture_name(item)})", ""]
    whole = len(item.cells())
    if len(shown_cells(shown)) < whole:
        words = ["./terrace bench run", item.name, find_workload(item.workload).sources_option]
        rest = f"`{' '.join(filter(None, words))}` measures the rest"
        lines += [f"{len(shown_cells(shown))} of {whole} cells are measured; {rest}.", ""]
    for group in groups:
        lines += [f"### {item.name}: {group.title}", "", *_table(item, group), ""]
        lines += [_TOO_SHORT, ""] if _too_short(group) else []
        lines += [f"- **failed**: `{doc['cell']}`: {doc['error'].splitlines()[0]}" for doc in group.bad()]
        lines += [""] if group.bad() else []
    if item.report == "scale":
        lines += [*scale_text(item, groups), ""]
    if item.tolerance:
        lines += [*_checks(item, shown), ""]
    return "\n".join(lines)


def _too_short(group: Group) -> bool:
    """Whether every run ended before the stock kernel's first scan."""
    seen = [doc for name in group.by_policy if not POLICIES[name].limit for doc in group.good(name)]
    return bool(seen) and all(tables.figures(doc)["guest_s"] < _FIRST_LOOK_S for doc in seen)


def shown_cells(documents: Sequence[Document]) -> set[str]:
    """Get the names of the cells; a bound is in several tables."""
    return {doc["cell"] for doc in documents}


def _table(item: Experiment, group: Group) -> list[str]:
    columns = tables.BY_REPORT[item.report]
    rows, head = tables.without_empty(tables.rows(group, columns), tables.head(columns))
    return tables.markdown(rows, head)


def _checks(item: Experiment, documents: Sequence[Document]) -> list[str]:
    checks = shape.check(documents, item.tolerance)
    broken = [check for check in checks if not check.met]
    held = f"{len(checks) - len(broken)} of {len(checks)}"
    lines = [f"Shape: {held} checks hold, within {100 * item.tolerance:g} % of time."]
    return lines + [f"- **broken**: {check.text}" for check in broken]


def _setup(item: Experiment, documents: Sequence[Document]) -> str:
    """Describe the setup: kernels, machine, clock, load, seeds, days."""
    good = [doc for doc in documents if doc["status"] == store.OK]
    kernels = sorted({f"{doc['kernel']['flavour']} {doc['kernel']['content_hash']}" for doc in good})
    versions = sorted({doc["kernel"]["version"] for doc in good})
    qemus = sorted({doc["machine"]["qemu"] for doc in good})
    start = "on slow memory" if item.start == "slow" else "where it is first touched"
    seeds = ", ".join(map(str, sorted({doc["key"]["seed"] for doc in documents})))
    policies = ", ".join(f"{name} ({POLICIES[name].purpose})" for name in item.policies)
    return (
        f"Linux {', '.join(versions)} ({', '.join(kernels)}), QEMU {', '.join(qemus)}, machine `{item.topology}`; "
        f"`{_command(item)}`{_beside(item)}, all memory {start} at first; "
        f"seeds {seeds}; policies: {policies}; measured {store.measured(good)}."
    )


def _command(item: Experiment) -> str:
    words = [item.workload, f"--threads {item.threads or 'N'}"]
    for name, value in item.options:
        given = _value(value)
        words.append(f"--{name}" if given is None else f"--{name} {given}")
    return " ".join(words)


def _beside(item: Experiment) -> str:
    """Describe the burst; '' without one."""
    burst = item.burst
    if burst is None:
        return ""
    words = [burst.workload, f"--size {format_size(burst.size)} --threads {burst.threads}"]
    words += [f"--{name}" if given is None else f"--{name} {given}" for name, given in burst.options]
    return f", from {burst.at_ms} ms on `{' '.join(words)}` beside it"


def _value(value: object) -> str | None:
    """Get an option's value for all sizes, as bench.toml has it."""
    if isinstance(value, dict):
        return ",".join(f"{format_size(size)}:{each}" for size, each in value.items())
    return None if value is True else str(value)
