# SPDX-License-Identifier: GPL-2.0
"""Configuration fragments: read, laid over each other, and compared with what the kernel made of them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from terrace.errors import BuildError, MissingError, UsageError
from terrace.kernel import build, config
from terrace.kernel.config import Wish
from terrace.packages import kernel


def test_fragment_is_read() -> None:
    text = '# a comment\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=n\n\nCONFIG_D="x y"\n'
    wishes = config.parse_fragment(text, "f")
    assert wishes == {
        "CONFIG_A": Wish("y", "f:2"),
        "CONFIG_B": Wish(None, "f:3"),
        "CONFIG_C": Wish(None, "f:4"),
        "CONFIG_D": Wish('"x y"', "f:6"),
    }


@pytest.mark.parametrize("line", ["NUMA=y", "CONFIG_A = y"])
def test_bad_line_is_named(line: str) -> None:
    with pytest.raises(UsageError, match="f:2: "):
        config.parse_fragment(f"CONFIG_X=y\n{line}\n", "f")


@pytest.mark.parametrize("name", list(config.FLAVOURS))
def test_every_flavour_has_its_fragments_and_patches_keys_where_qemu_has_one_thread(name: str) -> None:
    """Several threads took the int3 of code that had been patched since."""
    chosen = config.flavour(name)
    wishes = config.wishes_of(chosen.fragments)
    assert wishes["CONFIG_NUMA"].value == "y"
    assert "CONFIG_NUMA=y\n" in config.render(wishes)
    assert chosen.one_thread == ("CONFIG_JUMP_LABEL" in wishes) == (name == "static-keys")


@pytest.mark.parametrize("name", ["series", "arch"])
def test_static_keys_are_patched_into_what_is_compiled_only(name: str) -> None:
    """Without it a key is a variable, which no distribution has, and what switching it may break stays unseen."""
    options = config.parse_fragment(config.fragment_text(name), name)
    assert options["CONFIG_JUMP_LABEL"].value == "y"


@pytest.mark.parametrize("name", ["terrace", "off"])
def test_nothing_but_our_options_differs_from_stock(name: str) -> None:
    """What else is on or off would be measured as ours, and `deb kernel` would bring it to a real machine."""
    options = config.parse_fragment(config.fragment_text(name), name)
    numa = ("CONFIG_NUMA_SCAN_", "CONFIG_NUMA_FOLLOW")
    ours = ("CONFIG_MTIER", "CONFIG_MEMPOLICY2", "CONFIG_TLB_DEFER", "CONFIG_MAPPED_FILE_POLICY", *numa)
    assert [option for option in options if not option.startswith(ours)] == []
    assert not config.parse_fragment(config.fragment_text("stock"), "stock")


def test_unknown_flavour_is_named() -> None:
    with pytest.raises(UsageError, match="the flavours are stock, terrace, debug, static-keys, off"):
        config.flavour("fast")


def test_untaken_option_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "mm").mkdir()
    (tmp_path / "mm" / "Kconfig").write_text('config B\n\tbool "b"\n\tdepends on SMP && !C\n\nconfig Z\n\tbool\n')
    got = tmp_path / ".config"
    got.write_text("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_N=17\n")
    wishes = {"CONFIG_A": Wish("y", "f:1"), "CONFIG_B": Wish("y", "f:2"), "CONFIG_Q": Wish("y", "f:3")}
    with pytest.raises(BuildError) as caught:
        config.verify(wishes, got, tmp_path)
    text = str(caught.value)
    assert "f:2: CONFIG_B=y is requested, the kernel has n" in text
    assert "mm/Kconfig: depends on SMP && !C" in text
    assert "f:3: CONFIG_Q=y" in text
    assert "no Kconfig file of this tree has it" in text
    assert "CONFIG_A" not in text


def test_option_that_must_be_off_is_checked(tmp_path: Path) -> None:
    got = tmp_path / ".config"
    got.write_text("CONFIG_A=y\n")
    with pytest.raises(BuildError, match="CONFIG_A=n is requested, the kernel has y"):
        config.verify({"CONFIG_A": Wish(None, "f:1")}, got, tmp_path)
    config.verify({"CONFIG_B": Wish(None, "f:1")}, got, tmp_path)


def test_package_takes_the_given_configuration_and_adds_ours() -> None:
    base = (
        "CONFIG_A=m\nCONFIG_MTIER=n\nCONFIG_DEBUG_INFO_DWARF5=y\n"
        'CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/x.pem"\nCONFIG_LOCALVERSION="-mine"\n'
    )
    text = kernel.combined(base, {"CONFIG_MTIER": Wish("y", "f:1"), "CONFIG_X": Wish(None, "f:2")})
    assert text.splitlines() == [
        "CONFIG_A=m",
        "CONFIG_DEBUG_INFO_NONE=y",
        'CONFIG_SYSTEM_TRUSTED_KEYS=""',
        'CONFIG_SYSTEM_REVOCATION_KEYS=""',
        'CONFIG_LOCALVERSION=""',
        "CONFIG_MTIER=y",
        "# CONFIG_X is not set",
    ]


def test_package_has_type_data_where_the_given_configuration_has_it() -> None:
    """It is made from the debugger's data, which alone is good for nothing in a package."""
    with_types = ["CONFIG_DEBUG_INFO=y", "CONFIG_DEBUG_INFO_DWARF5=y", "CONFIG_DEBUG_INFO_BTF=y"]
    assert [line for line in kernel.combined("\n".join(with_types), {}).splitlines() if "DEBUG" in line] == with_types


def test_a_machine_without_a_compiler_gets_one_before_a_kernel_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first command of a bare machine, `terrace demo`, ended with: No such file or directory: 'gcc'."""
    asked: list[str] = []

    def missing(packages: Sequence[str], why: str) -> None:
        asked.extend(packages)
        raise MissingError(why)

    monkeypatch.setattr(build, "require_packages", missing)
    monkeypatch.setattr(build, "_tool_version", lambda name: pytest.fail(f"{name} was run first"))
    with pytest.raises(MissingError):
        build.find_built("terrace")
    assert "build-essential" in asked


def test_the_boot_menu_of_debian_starts_the_package() -> None:
    """It compares releases as versions of packages; the check of a whole Debian booted Debian's own at first."""
    for other in ("6.12.117+deb12-cloud-amd64", "6.12.117+deb13+1-amd64", "6.12.116+deb12-amd64", "6.1.0-40-amd64"):
        words = ["dpkg", "--compare-versions", f"6.12.117{kernel.LOCALVERSION}", "gt", other]
        assert subprocess.run(words, check=False).returncode == 0, other
