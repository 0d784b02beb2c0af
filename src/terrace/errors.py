# SPDX-License-Identifier: GPL-2.0
"""Errors meant for a person: shown as one message, without a traceback, with the exit code of their kind.

A message names the thing, its value, what is allowed and the next step.
"""


class TerraceError(Exception):
    """Something failed; base of all errors shown to a person."""

    exit_code = 1


class UsageError(TerraceError):
    """The command line, or a file the user wrote, asks for something that does not exist."""

    exit_code = 2


class MissingError(TerraceError):
    """A package, a kernel or a kernel feature is not there."""

    exit_code = 3


class BuildError(TerraceError):
    """A kernel or a guest could not be built or booted."""

    exit_code = 125
