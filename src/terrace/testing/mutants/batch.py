# SPDX-License-Identifier: GPL-2.0
"""Batches of mutants for one kernel. The mutants of a batch are independent, so that each is
detected by its own checks.
"""

from collections.abc import Sequence

from terrace.testing.mutants.read import Mutant


def batches(mutants: Sequence[Mutant]) -> list[list[Mutant]]:
    """Assign each mutant to the first batch without its capability, files and programs.

    A mutant that only checks on the host have to detect needs no kernel, and gets a batch of its
    own.
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
