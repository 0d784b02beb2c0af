#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Files of the packages that are generated: settings, unit, manual pages, completions, front door."""

import stat
import subprocess
import sys
from pathlib import Path

PROGRAM = '''\
#!/usr/bin/python3 -I
# SPDX-License-Identifier: GPL-2.0
# PYTHON_ARGCOMPLETE_OK
"""The front door of the installed tool. -I: nothing of the user's reaches a program that root runs."""

import sys

sys.path.insert(0, "{place}")
from terrace.__main__ import main  # noqa: E402

sys.exit(main())
'''
PLACE = "/usr/share/terrace-tools"
#: Modules of the tools, below src/terrace; all of a folder, or one file.
TOOLS = (
    *("__init__.py", "__main__.py", "cells.py", "complete.py", "errors.py", "files.py", "output.py", "paths.py"),
    *("pictures.py", "stored.py", "sysfs.py", "units.py", "words.py", "exporter", "live", "ops", "policy", "trace"),
    "cli/__init__.py",
    *("cli/answer.py", "cli/status.py", "cli/top.py", "cli/set.py", "cli/apply.py", "cli/exporter.py"),
    *("cli/exec.py", "cli/spread.py", "cli/features.py", "cli/doctor.py", "cli/record.py", "cli/report.py"),
)


def main(out: Path, version: str) -> None:
    """Write everything below ``out``."""
    tools = out / "terrace-tools" / "terrace"
    for name in TOOLS:
        copy(Path("src/terrace") / name, tools / name)
    program = write(out / "terrace", PROGRAM.format(place=PLACE), 0o755)
    ours = write(out / "bin" / "terrace", PROGRAM.format(place=tools.parent.resolve()), 0o755)
    write(out / "terrace.toml", run(ours, "apply", "--example"))
    write(out / "terrace.service", run(ours, "apply", "--unit"))
    verbs = dict(line.split(None, 1) for line in run(ours, "--help").splitlines() if line.startswith("  "))
    pages(out, ours, verbs, version)
    completions(out, program)


def pages(out: Path, program: Path, verbs: dict[str, str], version: str) -> None:
    """terrace.1, and a page for each verb, from --help."""
    also = ", ".join(f"\\fBterrace-{name}\\fP(1)" for name in verbs)
    write(out / "man.h2m", f"[see also]\n{also}, \\fBterrace.toml\\fP(5)\n")
    whole = {"terrace": ("tiered memory for Linux", "")}
    whole |= {f"terrace-{name}": (summary, name) for name, summary in verbs.items()}
    for name, (summary, verb) in whole.items():
        # help2man knows a synopsis by its capital, and has it in one line.
        text = f'#!/bin/sh\nCOLUMNS=1000 "{program}" {verb} "$@" | sed "s/^usage:/Usage:/"\n'
        wrapper = write(out / "pages" / name, text, 0o755)
        words = ["help2man", "--locale=C.UTF-8", "--no-info", "--section=1", f"--name={summary}"]
        words += [f"--version-string={version}", "--manual=Terrace", "--source=terrace-tools"]
        write(out / "man" / f"{name}.1", run(*words, f"--include={out}/man.h2m", wrapper))


def completions(out: Path, program: Path) -> None:
    """Completion by argcomplete: the shell calls the program."""
    bash = run("register-python-argcomplete", "--shell", "bash", program.name)
    shells = out / "completions"
    write(shells / "bash/terrace", bash)
    write(shells / "zsh/_terrace", f"#compdef terrace\nautoload -U bashcompinit && bashcompinit\n{bash}")
    write(shells / "fish/terrace.fish", run("register-python-argcomplete", "--shell", "fish", program.name))


def copy(source: Path, target: Path) -> None:
    """A file, or all files of a folder."""
    for path in sorted(filter(Path.is_file, source.iterdir())) if source.is_dir() else [source]:
        write(target / path.name if source.is_dir() else target, path.read_text(encoding="utf-8"))


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    """The file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(stat.S_IFREG | mode)
    return path


def run(*words: object) -> str:
    """Standard output of a program."""
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
