# SPDX-License-Identifier: GPL-2.0
"""Record migrations over a time: `terrace record` and `terrace report`.

`session` runs trace-cmd to write the trace, `lines` parses its output, `look` adds the kernel's
counters, and `store` is the file with all of it. `summary` computes facts from a file alone, which
`page`, `document` and `plot` show.
"""
