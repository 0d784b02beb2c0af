# SPDX-License-Identifier: GPL-2.0
"""How properties are tried: no time limit for an example, since a host can be busy.

The gate tries the same examples each time, so that its verdict on a tree is one; else they are new ones in each run.
"""

from hypothesis import HealthCheck, settings

_ANY_HOST = settings(database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", _ANY_HOST, derandomize=False)
settings.register_profile("gate", _ANY_HOST, derandomize=True)
settings.load_profile("suite")
