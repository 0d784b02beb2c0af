# SPDX-License-Identifier: GPL-2.0
"""Build every patch of the series, so that a bisection never stops at a patch of it.

That takes hours. Finished builds are remembered in the cache by all their inputs: an interrupted
check continues, and a changed patch costs its own build and those of the following ones.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from terrace.errors import BuildError
from terrace.host import cpu_count
from terrace.kernel import build, config, series, tree
from terrace.kernel import source as linux_source
from terrace.kernel.series import Series
from terrace.kernel.source import Source
from terrace.output import say
from terrace.paths import cache_dir, trees_dir

# On a small configuration: with the lab's, a header that every file includes costs ten minutes per
# patch.
_FRAGMENTS = {"off": ("series", "off"), "terrace": ("series", "terrace")}


def build_each(whole: Series, source: Source) -> list[str]:
    """Apply patch after patch to a pristine tree and build after each; return one line for each
    failure.

    A state of the tree that was built before, with the same compiler and options, is not built
    again.
    """
    root = trees_dir() / f"linux-series{source.tag}"
    _reset(root, whole, source)
    memory = cache_dir() / "bisect-good.txt"
    good = set(memory.read_text(errors="replace").split()) if memory.exists() else set()
    asked = {kind: config.render(config.wishes_of(fragments)) for kind, fragments in _FRAGMENTS.items()}
    problems = []
    for number, (patch, state) in enumerate(zip(whole.patches, states(whole, source), strict=True), 1):
        series.apply_entry(patch, root)
        complete = number == len(whole.patches)
        for kind, options in asked.items():
            key = hashlib.sha256(f"{state} {complete} {options}".encode()).hexdigest()
            what = f"patch {number} of {len(whole.patches)}, our options {kind}: {patch.title}"
            if key in good:
                say(f"{what} (built before)")
                continue
            say(what)
            try:
                _build(root, kind, complete=complete)
            except BuildError as error:
                problems += [what, *str(error).splitlines()]
            else:
                with memory.open("a") as file:
                    file.write(f"{key}\n")
    return problems


def states(whole: Series, source: Source) -> Iterator[str]:
    """Hash the tree after each patch, with all that is compiled in it, and the compiler."""
    digest = hashlib.sha256("\0".join((source.sha, *build.tools())).encode())
    for patch in whole.patches:
        tree.add_content(digest, patch.overlay, patch.hooks, build.NOT_BUILT)
        yield digest.hexdigest()


def _reset(root: Path, whole: Series, source: Source) -> None:
    """Reset the tree to pristine, keeping compiled objects."""
    mark = root / tree.NOTES
    if root.exists() and (not mark.exists() or mark.read_text() != source.sha):
        shutil.rmtree(root)
    if not root.exists():
        linux_source.unpack(source, root)
        mark.write_text(source.sha)
    assembled = tree.assemble(source)
    for patch in whole.patches:
        for name in patch.overlay:
            (root / name).unlink(missing_ok=True)
        for name, content in tree.pristine_of(assembled, patch.hooks).items():
            if (root / name).read_bytes() != content:
                (root / name).write_bytes(content)


def _build(root: Path, kind: str, *, complete: bool) -> None:
    """Build the present state. Options of later patches do not exist yet, so only a `complete` tree
    is checked for them.
    """
    out = root / f"out-series-{kind}"
    out.mkdir(exist_ok=True)
    wishes = config.wishes_of(_FRAGMENTS[kind])
    wanted = out / ".terrace-wishes"
    wanted.write_text(config.render(wishes))
    done = subprocess.run(
        build.make_command(out, "-s", "allnoconfig"),
        env={**build.make_env(), "KCONFIG_ALLCONFIG": str(wanted)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"the kernel could not be configured:\n{done.stderr.strip()[-1000:]}")
    if complete:
        config.verify(wishes, out / ".config", root)
    build.run_make(out, ["vmlinux"], f"{kind} kernel", cpu_count())
