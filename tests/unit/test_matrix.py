# SPDX-License-Identifier: GPL-2.0
"""The matrix of configurations: the options that it requests."""

from terrace.kernel import config, matrix


def test_every_option_that_differs_has_to_be_taken() -> None:
    for name in matrix.names():
        asked = matrix.asked(name)
        assert asked.needed, name
        assert asked.wishes.items() >= asked.needed.items(), name


def test_an_option_of_ours_can_be_alone() -> None:
    wishes = matrix.asked("only-tlb-defer").wishes
    ours = [option for option in config.parse_fragment(config.fragment_text("off"), "off") if wishes[option].value]
    assert ours == ["CONFIG_TLB_DEFER"]


def test_all_of_ours_are_known() -> None:
    """A new capability is switched off when another one is tested alone."""
    off = set(config.parse_fragment(config.fragment_text("off"), "off"))
    assert {f"CONFIG_{option}" for option in matrix._OURS} == off


def test_the_modular_one_has_modules_that_call_what_we_changed() -> None:
    wishes = matrix.asked(matrix.MODULAR).wishes
    assert (wishes["CONFIG_OVERLAY_FS"].value, wishes["CONFIG_NFSD"].value) == ("m", "m")


def test_with_s_only_the_compilers_words_are_told() -> None:
    log = "In file included from x.c:1:\nmm/a.c:3:1: error: no b\n  3 | b\nmake[2]: *** [mm/a.o] Error 1\n"
    assert matrix._told(log) == "  mm/a.c:3:1: error: no b\n  make[2]: *** [mm/a.o] Error 1"
