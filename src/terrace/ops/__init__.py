# SPDX-License-Identifier: GPL-2.0
"""The logic of the operator's subcommands (status, set, features, doctor).

Standard library only: these subcommands run on a bare server with the system's python3.
"""
