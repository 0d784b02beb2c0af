# SPDX-License-Identifier: GPL-2.0
"""A hook that does not apply is told before another kernel is built for minutes."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from terrace.cli import bench as bench_verb
from terrace.cli import kernel as kernel_verb
from terrace.demo import cases, runner
from terrace.errors import BuildError
from terrace.kernel import build


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels whose build began, on a machine where no hook of a patched tree applies."""
    begun: list[str] = []

    def prepare(flavour: str) -> Path:
        if flavour != "stock":
            raise BuildError(f"{flavour}: hooks/0042 does not apply")
        return Path(flavour)

    def begin(flavour: str, **_: object) -> None:
        begun.append(flavour)

    monkeypatch.setattr(build, "find_built", lambda flavour: None)
    monkeypatch.setattr(build, "prepare", prepare)
    for module in (build, runner, bench_verb):
        monkeypatch.setattr(module, "build", begin)
    monkeypatch.setattr(runner, "find_built", build.find_built)
    for name in ("_require_memory", "require_guest_tools", "require_tools"):
        monkeypatch.setattr(runner, name, lambda *_: None)
    monkeypatch.setattr(bench_verb, "require_instruments", lambda: None)
    return begun


def _demo() -> None:
    runner.kernels_for(cases.MAIN, cases.Workload(64 << 20))


def _kernel_build() -> None:
    parser = argparse.ArgumentParser()
    kernel_verb.add_arguments(parser)
    args = parser.parse_args(["build", "stock", "terrace"])
    args.run(args)


def _bench_run() -> None:
    parser = argparse.ArgumentParser()
    bench_verb.add_arguments(parser)
    bench_verb.main(parser.parse_args(["run", "smoke"]))


@pytest.mark.parametrize("verb", [_demo, _kernel_build, _bench_run])
def test_no_kernel_is_built_when_the_tree_of_another_cannot_be_made(verb: Callable[[], None], built: list[str]) -> None:
    with pytest.raises(BuildError, match="0042 does not apply"):
        verb()
    assert built == []


def test_the_tree_of_a_kernel_in_the_cache_is_not_made(built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find_built", lambda flavour: object())
    build.prepare_all(["stock", "terrace"])
