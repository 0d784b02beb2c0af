# SPDX-License-Identifier: GPL-2.0
"""What `terrace exporter` tells Prometheus: the table of metrics, where they come from, and how they are served."""
