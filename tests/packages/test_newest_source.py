# SPDX-License-Identifier: GPL-2.0
"""The hooks apply to the newest Linux 6.12.y of each release of Debian, whatever this machine has installed.

Debian 13 had 6.12.118 before Debian 12 had it. One hook did not apply there, and both commands of the README failed.
"""

import tarfile
from pathlib import Path

import pytest
from releases import RELEASES, newest_source

from terrace.kernel import tree
from terrace.kernel.patches import hooks, stack_states


@pytest.mark.parametrize("release", RELEASES)
def test_the_hooks_apply_to_the_newest_source(release: str, tmp_path: Path) -> None:
    tarball = newest_source(release, tmp_path / "root")
    stack, overlay = hooks(), set(tree.overlay_files())
    hooked = {name for hook in stack for name in hook.paths}
    pristine: dict[str, bytes] = {}
    with tarfile.open(tarball) as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            assert name not in overlay, f"{name} is part of this Linux"
            if name in hooked:
                content = archive.extractfile(member)
                assert content is not None
                pristine[name] = content.read()
    assert pristine.keys() == hooked, "a hooked file is missing"
    assert len(stack_states(pristine, stack)) == len(stack) + 1
