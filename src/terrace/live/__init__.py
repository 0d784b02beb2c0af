# SPDX-License-Identifier: GPL-2.0
"""The live view of `terrace top`.

`state` handles keys and `draw` formats the screen; both are independent of a terminal. `screen` is
the thin layer that uses the terminal, and `watch` the thread that reads the machine's state.
"""
