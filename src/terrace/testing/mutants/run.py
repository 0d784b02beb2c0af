# SPDX-License-Identifier: GPL-2.0
"""terrace test --mutants: build kernels with several mutants each, and run the checks that have to
detect them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terrace.errors import TerraceError, UsageError
from terrace.kernel import build, tree
from terrace.kernel import source as linux_source
from terrace.lab.plugin import require_tools
from terrace.lab.run import require_guest_tools
from terrace.testing.mutants import verdict as verdicts
from terrace.testing.mutants.batch import batches
from terrace.testing.mutants.observe import Seen, observe, observe_host
from terrace.testing.mutants.read import Assembled, Mutant, Target, load_mutants
from terrace.testing.mutants.verdict import Memory, Verdict, decide
from terrace.testing.select import Selector

_FLAVOUR = "terrace"


@dataclass(frozen=True)
class Lab:
    """Functions that build and test a mutant; tests replace them."""

    texts: Callable[[Sequence[Mutant]], dict[str, str]]
    unmutated: Callable[[], Path]
    build: Callable[[Mapping[str, bytes]], AbstractContextManager[Path]]
    observe: Callable[[Path, Sequence[Target]], dict[Target, Seen]]
    observe_host: Callable[[Mapping[str, str], Sequence[Target]], dict[Target, Seen]]


def picked(wanted: Selector) -> list[Mutant]:
    """Select mutants by name or kind (-k)."""
    return [mutant for mutant in load_mutants() if wanted(f"mutants/{mutant.name} {mutant.kind}")]


def main(wanted: Selector, expression: str | None, deadline: float) -> tuple[int, dict[str, Any]]:
    """Test the selected mutants; return 0 if all are caught, and the document with the table."""
    mutants = picked(wanted)
    if not mutants:
        raise UsageError(f"-k '{expression}' picks no mutant; terrace test --mutants --list shows their names")
    require_guest_tools()
    require_tools(drives=True)
    assembled = Assembled(tree.assemble(linux_source.find()))
    for mutant in mutants:
        assembled.changed([mutant])
    lab = Lab(
        assembled.changed,
        lambda: build.build(_FLAVOUR).vmlinux,
        lambda changes: build.changed(_FLAVOUR, changes),
        lambda vmlinux, targets: observe(vmlinux, targets, _note),
        lambda texts, targets: observe_host(texts, targets, _note),
    )
    memory = Memory(build.content_key(_FLAVOUR))
    done = try_all(mutants, memory, lab, deadline)
    left = [mutant.name for mutant in mutants if mutant.name not in done]
    found = [done[mutant.name] for mutant in mutants if mutant.name in done]
    print(verdicts.shown(found), flush=True)
    if left:
        print(f"not run yet: {', '.join(left)}; the same command goes on with that")
    print(verdicts.summary(found), flush=True)
    good = not left and all(verdict.verdict == verdicts.CAUGHT for verdict in found)
    return 0 if good else 1, verdicts.as_json(found, left)


def _note(text: str) -> None:
    print(f"  {text}", flush=True)


def try_all(mutants: Sequence[Mutant], memory: Memory, lab: Lab, deadline: float) -> dict[str, Verdict]:
    """Get the verdicts by name, including remembered ones; start nothing after the deadline."""
    done = {mutant.name: verdict for mutant in mutants if (verdict := memory.verdict(mutant))}
    waiting = batches([mutant for mutant in mutants if mutant.name not in done])
    number = 0
    while waiting and time.monotonic() < deadline:
        batch = waiting.pop(0)
        number += 1
        print(f"kernel {number}, {len(waiting)} behind it: {', '.join(m.name for m in batch)} …", flush=True)
        found, again = _try(batch, memory, lab)
        for mutant in batch:
            if mutant.name in found:
                # A check that failed without the mutant may have failed by chance.
                if found[mutant.name].verdict != verdicts.FAILS_ANYWAY:
                    memory.keep(mutant, found[mutant.name])
                done[mutant.name] = found[mutant.name]
                _note(f"{found[mutant.name].verdict}: {mutant.name}: {found[mutant.name].said}")
        # A failure of the whole kernel may come from another mutant, and one that does not build
        # delays the others.
        waiting = [[mutant] for mutant in again] + waiting
    return done


def _try(batch: Sequence[Mutant], memory: Memory, lab: Lab) -> tuple[dict[str, Verdict], list[Mutant]]:
    """Test one batch; return its verdicts, and the mutants that have to be tested alone."""
    targets = [target for mutant in batch for target in mutant.caught_by]
    try:
        texts = lab.texts(batch)
        seen: dict[Target, Seen] = {}
        if any(target.in_guest for target in targets):
            with lab.build({path: text.encode() for path, text in texts.items()}) as vmlinux:
                seen |= lab.observe(vmlinux, targets)
        seen |= lab.observe_host(texts, targets)
    except TerraceError as error:
        return _not_built(batch, error)
    again = [m for m in batch if len(batch) > 1 and any(seen[target].shared for target in m.caught_by)]
    judged = [mutant for mutant in batch if mutant not in again]
    before = _look_without(judged, seen, memory, lab)
    return {mutant.name: decide(mutant, seen, before) for mutant in judged}, again


def _look_without(
    mutants: Sequence[Mutant], seen: Mapping[Target, Seen], memory: Memory, lab: Lab
) -> dict[Target, Seen]:
    """Run the failed checks on the kernel without mutants: a check that fails there as well proves
    nothing.
    """
    failed = [mutant.caught_by[0] for mutant in mutants if seen[mutant.caught_by[0]].status == "fail"]
    known = {target: kept for target in failed if (kept := memory.seen(target))}
    missing = sorted(set(failed) - set(known))
    if not missing:
        return known
    _note("the same checks without mutants")
    if any(target.in_guest for target in missing):
        known |= lab.observe(lab.unmutated(), missing)
    known |= lab.observe_host({}, missing)
    for target in missing:
        if known[target].status == "pass":
            memory.keep_seen(target, known[target])
    return known


def _not_built(batch: Sequence[Mutant], error: Exception) -> tuple[dict[str, Verdict], list[Mutant]]:
    if len(batch) > 1:
        return {}, list(batch)
    (mutant,) = batch
    words = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in words if "error:" in line), words[0] if words else "no reason given")
    by = str(mutant.caught_by[0])
    return {mutant.name: Verdict(mutant.name, mutant.kind, verdicts.NOT_BUILT, by, told)}, []
