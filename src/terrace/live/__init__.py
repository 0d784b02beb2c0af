# SPDX-License-Identifier: GPL-2.0
"""The live view of `terrace top`.

`state` says what a key does, `draw` what is on the screen; neither knows of a terminal. `screen` is the thin part that
does, and `watch` the thread that looks at the machine meanwhile.
"""
