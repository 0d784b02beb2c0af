# SPDX-License-Identifier: GPL-2.0
import re

import pytest

from terrace.lab import mark
from terrace.paths import repo_root


def test_markers_do_nothing_here() -> None:
    mark.task(mark.APP)
    mark.region(1)
    mark.region(1)
    mark.region(2)


def test_the_instruction_is_the_one_of_the_c_macro() -> None:
    text = (repo_root() / "guest" / "terrace_guest.h").read_text()
    opcode = re.search(r"\.byte (0x0f, 0x1f, 0x84, 0x00)", text)
    assert opcode
    code = mark.marker_bytes(2, 7)
    assert code[:4] == bytes(int(word, 16) for word in opcode[1].split(", "))
    assert int.from_bytes(code[4:], "little") == 0x54540207
    assert "0x54540000 | (kind) << 8 | (number)" in text


@pytest.mark.parametrize("number", [-1, 256])
def test_a_number_that_has_no_byte_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="0 to 255"):
        mark.region(number)
