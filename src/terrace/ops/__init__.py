# SPDX-License-Identifier: GPL-2.0
"""What the operator's verbs (status, set, features, doctor) know and decide.

Standard library only: these verbs run on a bare server with the system's python3.
"""
