# SPDX-License-Identifier: GPL-2.0
"""Mutants that go together into one kernel: so far apart that what one breaks is not noticed for the other."""

from collections.abc import Sequence

from terrace.testing.mutants.read import Mutant


def batches(mutants: Sequence[Mutant]) -> list[list[Mutant]]:
    """The mutants dealt out, each into the first batch that has nothing of its capability, files and programs.

    One that only the host's checks have to notice takes no kernel, and is alone.
    """
    alone = [[mutant] for mutant in mutants if not mutant.in_guest]
    together: list[list[Mutant]] = []
    for mutant in mutants:
        if mutant.in_guest:
            fitting = (batch for batch in together if not any(_in_the_way(mutant, other) for other in batch))
            batch = next(fitting, None)
            if batch is None:
                together.append([mutant])
            else:
                batch.append(mutant)
    return [*alone, *together]


def _in_the_way(one: Mutant, other: Mutant) -> bool:
    same_files = {file.path for file in one.files} & {file.path for file in other.files}
    return one.capability == other.capability or bool(same_files) or bool(_units(one) & _units(other))


def _units(mutant: Mutant) -> set[tuple[str, str]]:
    return {(target.group, target.unit) for target in mutant.caught_by}
