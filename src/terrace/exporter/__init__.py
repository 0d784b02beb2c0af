# SPDX-License-Identifier: GPL-2.0
"""`terrace exporter`: the table of metrics, their sources, and the server."""
