# SPDX-License-Identifier: GPL-2.0
"""The checks a change of the kernel part has to pass; each can be run alone."""

import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terrace.errors import BuildError, TerraceError, UsageError
from terrace.host import clean_env, cpu_count, require_packages
from terrace.kernel import arch, bisect, build, config, exports, matrix, nops, patches, series, size, symbols, tree
from terrace.kernel import source as linux_source
from terrace.kernel.nops import Site
from terrace.kernel.size import Size
from terrace.kernel.source import Source
from terrace.paths import build_dir, repo_root
from terrace.progress import Progress
from terrace.words import did_you_mean

# There is no git history to check, and MAINTAINERS is one patch of the series, not a part of each.
_CHECKPATCH_IGNORE = "FILE_PATH_CHANGES,GIT_COMMIT_ID,UNKNOWN_COMMIT_ID"
# Findings that the kind of file makes unavoidable: user-space stand-ins for kernel headers define the kernel's own
# macros, and every trace header of Linux is laid out against these rules.
_EXEMPT = {
    re.compile(r"tools/testing/\w+/include/"): {
        "COMPLEX_MACRO",
        "MEMORY_BARRIER",
        "CAMELCASE",
        "MACRO_ARG_PRECEDENCE",
        "MACRO_ARG_REUSE",
        "MACRO_ARG_UNUSED",
        "PREFER_DEFINED_ATTRIBUTE_MACRO",
        "SPACING",
        "STRNCPY",
    },
    # User space: BIT() and __printf() do not exist there, flags shared with another thread are
    # volatile, the name of a check may be that of its function, and an assertion returns.
    re.compile(r"tools/testing/selftests/"): {
        "BIT_MACRO",
        "EMBEDDED_FUNCTION_NAME",
        "MACRO_WITH_FLOW_CONTROL",
        "PREFER_DEFINED_ATTRIBUTE_MACRO",
        "VOLATILE",
    },
    # checkpatch finds documentation only in the same patch; here it is in a hook.
    re.compile(r"mm/mtier/core\.c"): {"UNDOCUMENTED_SETUP"},
    # ENOSYS is the expected error of a missing call.
    re.compile(r"tools/testing/selftests/terrace/mempolicy2_"): {"ENOSYS", "MACRO_ARG_REUSE"},
    # A program that is built for several ABIs checks which one.
    re.compile(r"tools/testing/selftests/terrace/mempolicy2_abi\.c"): {"ARCH_DEFINES"},
    # An empty stub that must not change a byte of its caller.
    re.compile(r"include/linux/(mtier|numa_follow)\.h"): {"MACRO_ARG_UNUSED", "SINGLE_STATEMENT_DO_WHILE_MACRO"},
    re.compile(r"include/linux/tlb_defer(_\w+)?\.h"): {"MACRO_ARG_UNUSED", "SINGLE_STATEMENT_DO_WHILE_MACRO"},
    # Bitmaps of fixed size instead of cpumasks, as it also runs in user space.
    re.compile(r"mm/tlb_defer/(gen|tests/gen_kunit)\."): {"NR_CPUS"},
    # A flag in the style of the surrounding lines.
    re.compile(r"include/uapi/linux/mempolicy\.h"): {"SPACING"},
    # A storage class that depends on the configuration.
    re.compile(r"kernel/sched/numa_scan/numa_scan\.h"): {"COMPLEX_MACRO"},
    re.compile(r"include/trace/events/"): {"COMPLEX_MACRO", "OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT"},
}
_CODE = (".c", ".h")


@dataclass(frozen=True)
class Measured:
    """Result of a check with more than problems: sizes of folders, or places of nops."""

    problems: list[str]
    sizes: list[Size] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)


@dataclass(frozen=True)
class Check:
    """One check: `run` returns the problems, a line each; `slow` ones run only with --full or by
    name.

    `packages` are the Debian packages that it needs in addition to those of a kernel build.
    """

    name: str
    purpose: str
    run: Callable[[Source], list[str] | Measured]
    slow: bool = False
    packages: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """The result of one check; `sizes` of folders and `sites` of nops, for the checks of them."""

    name: str
    problems: tuple[str, ...]
    seconds: float
    sizes: tuple[Size, ...] = ()
    sites: tuple[Site, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def require_packages_of(names: Sequence[str]) -> None:
    """Install the Debian packages that the checks called `names` need. Raises MissingError; call it first."""
    require_packages(build.PACKAGES, "build a kernel")
    for check in CHECKS:
        if check.packages and check.name in names:
            require_packages(check.packages, f"run the check {check.name}")


def run_checks(names: Sequence[str], *, full: bool = False) -> list[Result]:
    """Run the checks called `names`, or all (the slow ones only if `full`). Raises UsageError for an unknown name."""
    known = {check.name: check for check in CHECKS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no check '{name}'; {did_you_mean(name, known)}the checks are {', '.join(known)}"
            )
    chosen = [known[name] for name in names] or [check for check in CHECKS if full or not check.slow]
    require_packages_of([check.name for check in chosen])
    source = linux_source.find()
    return [_timed(check, source) for check in chosen]


def _timed(check: Check, source: Source) -> Result:
    start = time.monotonic()
    try:
        found = check.run(source)
    except TerraceError as error:
        found = str(error).splitlines()
    if not isinstance(found, Measured):
        found = Measured(found)
    seconds = time.monotonic() - start
    return Result(check.name, tuple(found.problems), seconds, tuple(found.sizes), tuple(found.sites))


def _check_hooks(source: Source) -> list[str]:
    """Every hook applies without fuzz, and has a reason in its message.

    It applies at the lines that it names, if the file is the one for which it was written.
    """
    assembled = tree.assemble(source)
    stack = patches.hooks()
    pristine = tree.pristine_of(assembled, stack)
    states = patches.stack_states(pristine, stack)
    exact = patches.written_for(pristine, stack)
    problems = []
    for hook, before, after in zip(stack, states, states[1:], strict=False):
        title, body = patches.message(hook)
        if len(title) > 75:
            problems.append(f"hooks/{hook.name}: the subject has {len(title)} characters, 75 are allowed")
        if len(re.sub(r"^\S+-by: .*$", "", body, flags=re.MULTILINE).split()) < 5:
            problems.append(f"hooks/{hook.name}: the message does not say why the hook is there")
        named, found = (
            patches.lines_by_file(text) for text in (hook.diff, patches.rendered(hook, before, after) or "")
        )
        problems += [
            f"hooks/{hook.name}: {name}: applies at other lines than it names; run `terrace kernel refresh`"
            for name in sorted(exact & named.keys())
            if named[name] != found.get(name)
        ]
    return problems


def _check_budget(source: Source) -> list[str]:
    """Hooks and overlay files stay within hooks/budget.toml, and every overlay file has its licence line."""
    budget = _budget()
    stack = patches.hooks()
    lines = sum(len(re.findall(r"^(?:\+(?!\+\+ )|-(?!-- ))", hook.diff, re.MULTILINE)) for hook in stack)
    problems = []
    if len(stack) > budget["hooks"]:
        problems.append(f"hooks/: {len(stack)} hooks, the budget is {budget['hooks']}")
    if lines > budget["lines"]:
        problems.append(f"hooks/: {lines} changed lines, the budget is {budget['lines']}")
    for hook in stack:
        for name in hook.paths:
            if name in budget["hot"] and not str(budget["allowed"].get(name, "")).strip():
                problems.append(f"hooks/{hook.name}: changes {name}, and budget.toml does not say why it may")
    for name in tree.overlay_files():
        text = (tree.overlay_dir() / name).read_text(errors="replace")
        count = text.count("\n")
        if name.endswith(_CODE) and count > budget["overlay_file_lines"]:
            problems.append(f"linux/{name}: {count} lines, the budget is {budget['overlay_file_lines']}")
        if not name.startswith("Documentation/ABI/") and "SPDX-License-Identifier:" not in text[:300]:
            problems.append(f"linux/{name}: no SPDX-License-Identifier in its first lines")
    return problems


def _check_checkpatch(source: Source) -> list[str]:
    """Run checkpatch --strict over overlay and hooks."""
    root = tree.assemble(source)
    names = [
        name
        for name in tree.overlay_files()
        if name.endswith((*_CODE, ".sh", ".py", ".rst")) or Path(name).name.startswith(("Kconfig", "Makefile"))
    ]
    # The longest first, distributed over all CPUs.
    names.sort(key=lambda name: (tree.overlay_dir() / name).stat().st_size, reverse=True)
    hands = [hand for hand in (names[i :: cpu_count()] for i in range(cpu_count())) if hand]
    with ThreadPoolExecutor(cpu_count()) as pool:
        files = pool.map(lambda hand: _checkpatch(root, ["--file", *hand], "linux"), hands)
        hooks = pool.map(lambda hook: _checkpatch_patch(root, repo_root() / "hooks" / hook.name), patches.hooks())
        return sorted(line for lines in files for line in lines) + [line for lines in hooks for line in lines]


def _checkpatch_patch(root: Path, path: Path) -> list[str]:
    # Places are those in the changed files, where users look them up.
    return _checkpatch(root, ["--showfile", str(path)], path.name)


def _checkpatch(root: Path, words: Sequence[str], label: str) -> list[str]:
    """Findings as label/path:line: text."""
    command = ["perl", "scripts/checkpatch.pl", "--strict", "--terse", "--show-types", "--no-summary", "--color=never"]
    done = _run([*command, f"--root={root}", f"--ignore={_CHECKPATCH_IGNORE}", *words], root)
    matches = [re.match(r"(.*?):(\d*): ((?:ERROR|WARNING|CHECK):(\w+):.*)", line) for line in done.stdout.splitlines()]
    every = [match for match in matches if match]
    found = [
        f"{label}/{match[1]}:{match[2]}: {match[3]}" if match[1] else f"{label}: {match[3]}"
        for match in every
        if not any(kind.match(match[1]) and match[4] in names for kind, names in _EXEMPT.items())
    ]
    if done.returncode != 0 and not every:
        found.append(f"{label}: checkpatch says: {(done.stderr or done.stdout).strip()[-300:]}")
    return found


def _check_kernel_doc(source: Source) -> list[str]:
    """kernel-doc comments of the overlay are well formed and complete."""
    root = tree.assemble(source)
    names = [name for name in tree.overlay_files() if name.endswith(_CODE) and not name.startswith("tools/testing/")]
    if not names:
        return []
    done = _run(["perl", "scripts/kernel-doc", "-none", "-Wall", *names], root)
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if line.strip() and not re.fullmatch(r"\d+ warnings.*", line.strip())]


def _check_abi(source: Source) -> list[str]:
    """Files below Documentation/ABI are well formed, and describe each file of sysfs once."""
    root = tree.assemble(source)
    names = [*tree.overlay_files(), *(name for hook in patches.hooks() for name in hook.paths)]
    ours = [name for name in names if name.startswith("Documentation/ABI/")]
    done = _run(["perl", "scripts/get_abi.pl", "validate"], root)
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    found = [line for line in lines if any(name in line for name in ours)]
    if done.returncode != 0 and not found:
        found.append(f"get_abi.pl says: {(done.stderr or done.stdout).strip()[-300:]}")
    return found


def _check_sparse(source: Source) -> list[str]:
    """No findings of sparse in the overlay's own files, compiled as in the terrace flavour."""
    ours = set(tree.overlay_files())
    found = []
    for line in _compile_ours(_terrace_out(source), "C=2").splitlines():
        match = re.match(r"(?:\.\./)?([^\s:]+):\d+:(?:\d+:)? (?:warning|error):", line)
        if match and os.path.normpath(match[1]) in ours:
            found.append(line.removeprefix("../"))
    return found


def _check_size(source: Source) -> Measured:
    """The overlay's code in the terrace flavour is no larger than hooks/budget.toml allows; shows a table."""
    out = _terrace_out(source)
    _compile_ours(out)
    built = [f"{name}built-in.a" if name.endswith("/") else name for name in _compiled()]
    done = _run(["size", *built], out)
    if done.returncode != 0:
        raise BuildError(f"size: {done.stderr.strip()[-300:]}")
    sizes = size.parse(done.stdout)
    return Measured(size.problems(sizes, _budget().get("text_bytes", {})), sizes)


def _check_nops(source: Source) -> Measured:
    """A static key that is off costs one nop in each function that tests it; shows a table, from the disassembly."""
    kernel = build.build("static-keys")
    code = [tree.overlay_dir() / name for name in tree.overlay_files() if name.endswith(".c")]
    found = nops.sites(kernel.vmlinux, nops.keys(path.read_text(errors="replace") for path in code))
    return Measured(nops.problems(found), sites=found)


def _terrace_out(source: Source) -> Path:
    return build.prepare("terrace")


def _compile_ours(out: Path, *words: str) -> str:
    """The output of make for the overlay's own files in an out folder."""
    command = [*words, *_compiled()]
    done = subprocess.run(
        [*build.make_command(out, *command), f"-j{cpu_count()}", "-Otarget"],
        env=build.make_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"make {' '.join(command)}:\n{build.excerpt(done.stdout)}")
    return done.stdout


def _compiled() -> list[str]:
    """Get the make targets of the overlay: folders with a Makefile of the overlay, and objects in folders of Linux."""
    ours = tree.overlay_files()
    folders = sorted(
        f"{Path(name).parent}/"
        for name in ours
        if Path(name).name == "Makefile" and not name.startswith(("tools/", "Documentation/", "samples/"))
    )
    return [*folders, *(name for name in size.ELSEWHERE if str(Path(name).with_suffix(".c")) in ours)]


def _budget() -> dict[str, Any]:
    return tomllib.loads((repo_root() / "hooks" / "budget.toml").read_text())


def _check_bloat(source: Source) -> list[str]:
    """With all options off no symbol grows, shrinks, appears or disappears, except refactored ones that get smaller."""
    before, after = build.build("stock"), build.build("off")
    root = tree.assemble(source)
    done = _run(["python3", "scripts/bloat-o-meter", str(before.vmlinux), str(after.vmlinux)], root)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode != 0 or not lines:
        raise BuildError(f"bloat-o-meter: {done.stderr.strip()[-300:]}")
    return _bloat(lines, _budget().get("refactored", {}))


def _bloat(lines: Sequence[str], refactored: Mapping[str, str]) -> list[str]:
    """The output of bloat-o-meter, or nothing if only functions of `refactored` (name: reason) have shrunk."""
    head = re.match(r"add/remove: (\d+)/(\d+) grow/shrink: (\d+)/(\d+) ", lines[0])
    if head is None or any(int(count) for count in head.groups()[:3]):
        return list(lines)
    shrunk = [match[1] for match in (re.match(r"(\S+) +\d+ +\d+ +-\d+$", line) for line in lines) if match]
    if len(shrunk) != int(head[4]) or not all(refactored.get(name, "").strip() for name in shrunk):
        return list(lines)
    return []


def _check_series(source: Source) -> list[str]:
    """The patch series uses everything once, gives the tree byte for byte, and checkpatch accepts each patch."""
    root = tree.assemble(source)
    out = build_dir() / "series"
    shutil.rmtree(out, ignore_errors=True)
    sizes = {path: path.stat().st_size for path in series.generate(series.load(), source, out)[1:]}
    with (
        Progress("checkpatch of each patch of the series", sum(sizes.values())) as progress,
        ThreadPoolExecutor(cpu_count()) as pool,
    ):
        sought = {pool.submit(_checkpatch_patch, root, path): size for path, size in sizes.items()}
        for one in as_completed(sought):
            progress.step(sought[one])
        return [line for one in sought for line in one.result()]


def _check_bisect(source: Source) -> list[str]:
    """Every patch of the series builds, with all options on and off."""
    return bisect.build_each(series.load(), source)


def _check_configs(source: Source) -> list[str]:
    """The kernel's configuration has every option as the fragments of each flavour set it."""
    for name in config.FLAVOURS:
        build.prepare(name)
    return []


def _check_symbols(source: Source) -> list[str]:
    """Every option named in code, hooks, series, fragments and docs is in a Kconfig file of the tree."""
    return symbols.problems(symbols.files_of(repo_root()), symbols.defined(tree.assemble(source)))


def _check_exports(source: Source) -> list[str]:
    """Functions of the overlay that inlines of Linux headers call are exported to modules."""
    return exports.problems()


def _check_matrix(source: Source) -> list[str]:
    """The code compiles with other options on and off, and the modules of one configuration link."""
    return [f"{name}: {problem}" for name in matrix.names() for problem in matrix.check(name, source)]


def _check_arch(source: Source) -> list[str]:
    """The objects compile for arm64 and riscv, and every architecture's tables have the new calls."""
    return arch.check_all(source)


def _run(command: Sequence[str], root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, errors="replace", check=False, env=clean_env()
    )


_PACKAGES: Mapping[str, Sequence[str]] = {"sparse": ("sparse",), "arch": arch.PACKAGES}
CHECKS = tuple(
    Check(name, (run.__doc__ or "").rstrip("."), run, slow, _PACKAGES.get(name, ()))
    for name, run, slow in (
        ("hooks", _check_hooks, False),
        ("budget", _check_budget, False),
        ("exports", _check_exports, False),
        ("symbols", _check_symbols, False),
        ("checkpatch", _check_checkpatch, False),
        ("kernel-doc", _check_kernel_doc, False),
        ("abi", _check_abi, False),
        ("configs", _check_configs, False),
        ("sparse", _check_sparse, False),
        ("size", _check_size, False),
        ("series", _check_series, False),
        ("bloat", _check_bloat, False),
        ("nops", _check_nops, True),
        ("bisect", _check_bisect, True),
        ("arch", _check_arch, True),
        ("matrix", _check_matrix, True),
    )
)
