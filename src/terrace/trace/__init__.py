# SPDX-License-Identifier: GPL-2.0
"""What moved in a time that was recorded: `terrace record` and `terrace report`.

`session` has trace-cmd write the trace, `lines` reads what it prints, `look` adds what the kernel counts, and `store`
is the file with all of it. From a file alone `summary` makes facts, which `page`, `document` and `plot` show.
"""
