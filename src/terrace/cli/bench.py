# SPDX-License-Identifier: GPL-2.0
"""terrace bench: run experiments, report and compare their results, validate the timing model."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from terrace import output
from terrace.bench import experiment, shape, store
from terrace.bench.cells import Cell
from terrace.bench.experiment import Experiment
from terrace.bench.instruments import require_instruments
from terrace.bench.published import table_text, validation_table, worse_lines
from terrace.bench.session import Session, expected_s, flavours_of
from terrace.bench.validate import find_runs, is_finished, read_results, results_folder, run_and_write
from terrace.cli import answer
from terrace.cli.linux import add_linux
from terrace.errors import UsageError
from terrace.host import cpu_count
from terrace.kernel.build import build, find_built, prepare_all
from terrace.lab.workloads import XSBENCH
from terrace.output import format_duration, say
from terrace.paths import measured, repo_root, require_checkout, writable
from terrace.units import format_size, parse_size, parse_time_ns, whole_number

_USUAL_BUILD_S = 330.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `terrace bench`."""
    verbs = parser.add_subparsers(dest="bench_verb", required=True, metavar="list|run|report|compare|validate|worker")
    jobs = whole_number("--jobs", 1, 1024)
    answer.add_arguments(verbs.add_parser("list", help="list the experiments and their purpose"))
    run = verbs.add_parser("run", help="measure the cells that were not yet measured with these kernels")
    run.add_argument("names", nargs="+", metavar="NAME", help="experiments of `bench list`, or paths")
    run.add_argument("--sizes", metavar="SIZE,…", help="only these of its sizes")
    run.add_argument("--dram", metavar="PART,…", help="only these of its amounts of DRAM (spare, 1/2)")
    run.add_argument("--policies", metavar="NAME,…", help="only these of its policies")
    run.add_argument("--seeds", metavar="N,…", help="only these of its seeds")
    run.add_argument("--cpus", metavar="N,…", help="only these of its numbers of CPUs")
    run.add_argument(
        "--xsbench", type=Path, metavar="DIR", help="the sources of XSBench, for the workload of that name"
    )
    run.add_argument("--again", action="store_true", help="also measure cells that have results")
    run.add_argument("--within", metavar="T", help="start no cell after T (10min); run again to go on")
    run.add_argument("--results", type=Path, metavar="DIR", help="put the results there (bench/NAME/results)")
    run.add_argument("--scheduler", metavar="ADDRESS", help="use the workers of this Dask scheduler (tcp://host:8786)")
    run.add_argument("--jobs", type=jobs, metavar="N", help="guests at a time on this machine (one for each CPU)")
    run.add_argument("--dry-run", action="store_true", help="print the cells and start none")
    add_linux(run)
    answer.add_arguments(run)
    report = verbs.add_parser("report", help="write docs/results.md, its pictures, and the tables of README")
    report.add_argument("--output", type=Path, metavar="FILE", help="write it there (docs/results.md)")
    answer.add_arguments(report, file=False)
    compare = verbs.add_parser("compare", help="two sets of results, or two policies, cell by cell")
    for name in ("a", "b"):
        compare.add_argument(name, metavar="RESULTS[:POLICY]", help="an experiment's name or a folder of results")
    answer.add_arguments(compare)
    validate = verbs.add_parser("validate", help="compare the timing model with published figures")
    validate.add_argument("what", choices=("run", "table"), help="measure, or print the table of the results")
    validate.add_argument("runs", nargs="*", metavar="RUN", help="of `run`: only these (stream-dram)")
    validate.add_argument("--again", action="store_true", help="also measure cells that have results")
    validate.add_argument("--kernel", metavar="FLAVOUR", help="boot this one (stock; terrace for weights of a range)")
    validate.add_argument("--results", type=Path, metavar="DIR", help="put or read them there (bench/validate/results)")
    add_linux(validate)
    answer.add_arguments(validate)
    worker = verbs.add_parser("worker", help="run cells for a Dask scheduler until that ends")
    worker.add_argument("address", help="of the scheduler (tcp://host:8786)")
    worker.add_argument("--jobs", type=jobs, metavar="N", help="guests at a time (one for each CPU)")


def check_arguments(args: argparse.Namespace) -> None:
    """Reject writing files that only a checkout has."""
    if args.bench_verb == "report" and args.output is None:
        require_checkout("terrace bench report")


def needs_packages(args: argparse.Namespace) -> bool:
    """Lists and dry runs need no packages."""
    return args.bench_verb not in ("list", "validate") and not (args.bench_verb == "run" and args.dry_run)


def main(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    if args.bench_verb == "list":
        return _list(args)
    if args.bench_verb == "run":
        return _run(args)
    if args.bench_verb == "validate":
        return _validate(args)
    if args.bench_verb == "worker":
        from terrace.bench.cluster import serve

        serve(args.address, args.jobs)
        return 0
    if args.bench_verb == "compare":
        from terrace.bench.compare import compare

        rows, head = compare(args.a, args.b)
        answer.give(
            args, _document("comparison", a=args.a, b=args.b, **_table(rows, head)), lambda: output.table(rows, head)
        )
        return 0
    from terrace.bench.report import write_all, write_excerpts

    written = write_all(args.output or repo_root() / "docs" / "results.md")
    # Tables in another file leave the README unchanged.
    written = written if args.output else [*written, *write_excerpts()]
    return _give_files(args, written)


def _document(kind: str, **fields: object) -> dict[str, object]:
    return {"version": 1, "kind": kind, **fields}


def _table(rows: Sequence[Sequence[str]], head: Sequence[str], title: str = "") -> dict[str, object]:
    """Convert a table for a document: as printed, with cells as text."""
    return {**({"title": title} if title else {}), "columns": list(head), "rows": [list(row) for row in rows]}


def _give_files(args: argparse.Namespace, written: Sequence[Path]) -> int:
    shown = [str(path) for path in written]
    answer.give(args, _document("files", written=shown, removed=[]), lambda: print(*shown, sep="\n"))
    return 0


def _list(args: argparse.Namespace) -> int:
    found = [experiment.load(name) for name in experiment.names()]
    shown = [{"name": item.name, "purpose": item.purpose, "file": str(item.file)} for item in found]
    rows = [(item.name, item.purpose) for item in found]
    answer.give(args, _document("experiments", experiments=shown), lambda: output.table(rows, ("NAME", "PURPOSE")))
    return 0


def _run(args: argparse.Namespace) -> int:
    if args.xsbench:
        # The workers, which are processes, compile it as well.
        os.environ[XSBENCH.variable] = str(args.xsbench.resolve())
    chosen = [experiment.load(name) for name in args.names]
    if args.results and len(chosen) > 1:
        raise UsageError("--results DIR is for one experiment at a time")
    picked = [(item, _pick(item, args), args.results or writable(item.folder / "results")) for item in chosen]
    open_for_s = parse_time_ns(args.within) / 1e9 if args.within else None
    for item, _, folder in picked:
        item.require_memory()
        # A file that is no result is an error before the first build.
        store.read_all(folder)
    if args.dry_run:
        return _dry_run(args, [cell for _, cells, _ in picked for cell in cells])
    require_instruments()
    flavours = {name for _, cells, _ in picked for name in flavours_of(cells)}
    prepare_all(sorted(flavours))
    session = Session({flavour: build(flavour) for flavour in _announced(sorted(flavours))})
    for item, cells, folder in picked:
        session.plan(item, cells, folder, args.again)
    left = 0
    if session.finished:
        say(f"terrace: {session.finished} cells were measured before; --again measures them again")
    if session.todo:
        left = _measure(session, args, open_for_s)
    for name, problem in session.failed:
        say(f"failed: {name}: {problem}")
    if left:
        say(f"terrace: {left} guests left; the same command continues with them")
    with answer.text_aside(args):
        shown, broken = _verdict(picked, bool(left))
    failed = [{"cell": name, "problem": problem} for name, problem in session.failed]
    answer.give(args, _document("bench", experiments=shown, failed=failed, guests_left=left))
    return 1 if failed or broken else 0


def _validate(args: argparse.Namespace) -> int:
    """Measure missing results, or print the table; return 1 if a row has a larger deviation than recorded."""
    place = writable if args.what == "run" else measured
    folder = args.results or place(results_folder())
    if args.what == "run":
        written = []
        require_instruments()
        with answer.text_aside(args):
            for run in find_runs(args.runs):
                if args.again or not is_finished(run, folder):
                    written.append(str(run_and_write(run, folder, args.kernel or run.flavour)))
                    print(written[-1], flush=True)
        answer.give(args, _document("files", written=written, removed=[]))
        return 0
    if args.runs or args.again or args.kernel:
        raise UsageError("bench validate table prints what was measured; RUN, --again and --kernel are for run")
    rows = validation_table(read_results(folder))
    worse = worse_lines(rows)
    shown = [{**asdict(row), "limit": row.limit, "worse": row.worse} for row in rows]
    answer.give(args, _document("validation", rows=shown), lambda: print(table_text(rows), end=""))
    for line in worse:
        say(f"worse than known: {line}")
    return 1 if worse else 0


def _pick(item: Experiment, args: argparse.Namespace) -> list[Cell]:
    cells = list(
        experiment.select(
            item.cells(),
            sizes=[parse_size(text) for text in args.sizes.split(",")] if args.sizes else None,
            policies=args.policies.split(",") if args.policies else None,
            seeds=_numbers(args.seeds) if args.seeds else None,
            dram=args.dram.split(",") if args.dram else None,
            cpus=_numbers(args.cpus, "--cpus") if args.cpus else None,
        )
    )
    if not cells:
        raise UsageError(f"bench run {item.name}: no cell is like that; see {item.file}")
    return cells


def _announced(flavours: Sequence[str]) -> list[str]:
    """Get the flavours, after printing how long the build of missing ones takes."""
    missing = [flavour for flavour in flavours if find_built(flavour) is None]
    if missing:
        once = format_duration(len(missing) * _USUAL_BUILD_S * 2 / cpu_count())
        say(f"terrace: kernels to build: {', '.join(missing)}, about {once}, this once")
    return list(flavours)


def _dry_run(args: argparse.Namespace, cells: Sequence[Cell]) -> int:
    planned = [(f"{cell.experiment}/{cell.name}", cell.machine().memory, expected_s(cell)) for cell in cells]
    total_s = sum(map(expected_s, cells)) / cpu_count()

    def text() -> None:
        rows = [(name, format_size(memory), format_duration(about_s)) for name, memory, about_s in planned]
        output.table(rows, ("CELL", "GUEST MEMORY", "ABOUT"))
        print(f"{len(cells)} cells, about {format_duration(total_s)} here")

    shown = [{"cell": name, "memory_bytes": memory, "expected_s": about_s} for name, memory, about_s in planned]
    answer.give(args, _document("cells", cells=shown, expected_s=total_s), text)
    return 0


def _measure(session: Session, args: argparse.Namespace, open_for_s: float | None) -> int:
    from terrace.bench.cluster import Cluster
    from terrace.bench.measure import measure

    label = f"bench: {len(session.todo)} cells"
    with Cluster(measure, args.scheduler, args.jobs) as cluster:
        return session.run(cluster, label, open_for_s)


def _verdict(picked: Sequence[tuple[Experiment, list[Cell], Path]], left: bool) -> tuple[list[dict[str, object]], bool]:
    """Print tables of the present results, and checks of those that have any; the same for JSON;
    return whether one failed.
    """
    from terrace.bench import tables

    shown: list[dict[str, object]] = []
    broken = False
    for item, _, folder in picked:
        found: list[dict[str, object]] = []
        shape_shown: list[dict[str, object]] = []
        shown.append({"name": item.name, "results": str(folder), "tables": found, "shape": shape_shown})
        results = store.read_current(folder, item.cells())
        print(f"{item.name}: {item.purpose}")
        for title, rows, head in tables.plain(item, results):
            print(f"\n{title}")
            output.table(rows, head)
            found.append(_table(rows, head, title))
        if item.tolerance and not left:
            for check in shape.check(results, item.tolerance):
                print(f"{'ok' if check.met else 'BROKEN'}: {check.text}")
                shape_shown.append({"met": check.met, "text": check.text})
                broken |= not check.met
    return shown, broken


def _numbers(text: str, option: str = "--seeds") -> list[int]:
    return [whole_number(option, 0, (1 << 32) - 1)(word) for word in text.split(",")]
