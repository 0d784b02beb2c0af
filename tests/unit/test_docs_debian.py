# SPDX-License-Identifier: GPL-2.0
"""The commands that a newcomer is told are those that the check of a whole Debian runs, in that order."""

import re

from terrace.paths import repo_root


def test_a_newcomers_commands_are_those_of_the_check() -> None:
    told = (repo_root() / "docs/how-to/kernel-on-a-real-machine.md").read_text()
    block = re.search(r"it is, in short:\n\n```\n(.*?)```", told, re.DOTALL)
    assert block is not None
    commands = [line.removeprefix("sudo ") for line in block[1].splitlines()]
    assert len(commands) == 4
    done = (repo_root() / "tests/packages/in_debian.sh").read_text()
    done = done[done.index("\nfirst)") :].replace("reboot_for ours", "reboot")
    places = [done.index(f"\n    {command}\n") for command in commands]
    assert places == sorted(places)
