# SPDX-License-Identifier: GPL-2.0
"""Hooks: read, applied without fuzz, written; and edits folded back into the hook they belong to."""

import pytest

from terrace.errors import BuildError, UsageError
from terrace.kernel import edit, patches
from terrace.kernel.patches import Hook

FILE = "mm/lines.c"
PRISTINE = "".join(f"line {number}\n" for number in range(1, 41)).encode()


def _hook(name: str, before: bytes, after: bytes) -> Hook:
    text = patches.rendered(patches.new_hook(name), {FILE: before}, {FILE: after})
    assert text is not None
    return patches.parse_hook(name, text)


def _after(content: bytes, line: str) -> bytes:
    """`content` with a call below `line`."""
    return content.replace(f"{line}\n".encode(), f"{line}\ncall_after_{line.split()[1]}();\n".encode())


FIRST = _after(PRISTINE, "line 5")
SECOND = _after(FIRST, "line 30")
STACK = [_hook("0001-mm-one.patch", PRISTINE, FIRST), _hook("0002-mm-two.patch", FIRST, SECOND)]


def _folded(edited: bytes, choice: str | None = None) -> list[bytes]:
    stack = edit._Stack(list(STACK), patches.stack_states({FILE: PRISTINE}, STACK))
    edit._fold_file(FILE, edited, stack, choice)
    return [state[FILE] for state in stack.states]


def test_written_hook_reads_back() -> None:
    hook = STACK[0]
    assert hook.paths == (FILE,)
    assert patches.subject(hook) == "mm one"
    assert " mm/lines.c | 1 +\n" in hook.text
    assert "diff --git a/mm/lines.c b/mm/lines.c\n" in hook.diff
    assert patches.stack_states({FILE: PRISTINE}, STACK)[-1][FILE] == SECOND


def test_rendering_is_stable() -> None:
    for hook, before, after in zip(STACK, (PRISTINE, FIRST), (FIRST, SECOND), strict=True):
        assert patches.rendered(hook, {FILE: before}, {FILE: after}) == hook.text
        assert not patches.changes_something_else(hook, {FILE: before}, {FILE: after})
        assert patches.changes_something_else(hook, {FILE: before}, {FILE: after + b"more\n"})


def test_rendering_nothing_is_none() -> None:
    assert patches.rendered(STACK[0], {FILE: FIRST}, {FILE: FIRST}) is None


def test_message_is_split() -> None:
    text = "From: A <a@b>\nSubject: [PATCH 1/2] mm: a rather\n long subject\n\nWhy.\n\nMore.\n---\n x | 1 +\n\n"
    hook = patches.parse_hook(
        "0001-x.patch", text + "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39\n"
    )
    assert patches.message(hook) == ("mm: a rather long subject", "Why.\n\nMore.")
    assert hook.diff.endswith("+b\n")


def test_no_fuzz() -> None:
    moved = PRISTINE.replace(b"line 4\n", b"line four\n")
    with pytest.raises(BuildError, match=r"hooks/0001-mm-one.patch does not apply(.|\n)*mm/lines.c"):
        patches.stack_states({FILE: moved}, STACK)


def test_hook_must_not_make_files() -> None:
    text = "Subject: x\n\ndiff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n"
    with pytest.raises(BuildError, match="overlay"):
        patches.parse_hook("0001-x.patch", text)
    with pytest.raises(BuildError, match="has no diff"):
        patches.parse_hook("0001-x.patch", "Subject: x\n\nnothing\n")


def test_edit_of_a_hooks_own_line_goes_there() -> None:
    edited = SECOND.replace(b"call_after_5();", b"better_after_5();")
    states = _folded(edited)
    assert states[0] == PRISTINE
    assert states[1] == FIRST.replace(b"call_after_5();", b"better_after_5();")
    assert states[2] == edited


def test_edit_near_the_second_hook_leaves_the_first_alone() -> None:
    edited = SECOND.replace(b"line 31\n", b"line 31\nanother_call();\n")
    states = _folded(edited)
    assert states[1] == FIRST
    assert states[2] == edited


def test_edits_of_both_are_told_apart() -> None:
    edited = SECOND.replace(b"call_after_5();", b"a();").replace(b"call_after_30();", b"b();")
    states = _folded(edited)
    assert states[1] == FIRST.replace(b"call_after_5();", b"a();")
    assert states[2] == edited


def test_removed_call_makes_the_hook_empty() -> None:
    states = _folded(SECOND.replace(b"call_after_5();\n", b""))
    assert states[1] == PRISTINE


def test_chosen_hook_takes_everything() -> None:
    edited = SECOND.replace(b"line 6\n", b"line 6\nmore();\n")
    states = _folded(edited, "0002-mm-two.patch")
    assert states[1] == FIRST
    assert states[2] == edited


def test_file_without_hook_needs_a_choice() -> None:
    stack = edit._Stack(list(STACK), patches.stack_states({FILE: PRISTINE, "mm/other.c": b"x\n"}, STACK))
    with pytest.raises(UsageError, match="--hook NAME.patch"):
        edit._fold_file("mm/other.c", b"y\n", stack, None)
