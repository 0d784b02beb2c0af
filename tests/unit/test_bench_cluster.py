# SPDX-License-Identifier: GPL-2.0
"""Real workers: one that is killed loses its task once, and the others go on."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from terrace.bench.cluster import Cluster
from terrace.bench.deaths import Deaths
from terrace.bench.schedule import Answer, Task, run_tasks

# Terminals, sockets, signals: one at a time, after the tests that share the CPUs.
pytestmark = pytest.mark.clock


def work(payload: tuple[str, str]) -> dict[str, Any]:
    """Runs in a worker. A task that is named for it kills its worker, once or each time."""
    name, folder = payload
    seen = Path(folder) / name
    tries = len(list(Path(folder).glob(f"{name}*")))
    Path(f"{seen}.{tries}").touch()
    if name == "dies-always" or (name == "dies-once" and not tries):
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "raises":
        raise RuntimeError("bad luck")
    return {"name": name}


def test_a_killed_worker_takes_down_only_what_is_killed_again(tmp_path: Path) -> None:
    found: dict[str, str] = {}

    def ended(task: Task, answer: Answer) -> bool:
        found[task.name] = answer.problem or str(answer.document and answer.document["name"])
        return answer.document is not None

    tasks = [Task(name, 1, 1.0) for name in ("dies-once", "good", "dies-always", "raises", "last")]
    with Cluster(work, None, 2) as cluster:
        run_tasks(tasks, cluster, lambda task: (task.name, str(tmp_path)), ended)
    died = found.pop("dies-always")
    assert died.startswith("its worker died: killed by SIGKILL (out of memory?)"), died
    # Its memory is known only if it was measured before the death, and here it dies at once.
    assert ", the host has " in died, died
    found["dies-always"] = "its worker died"
    assert found == {
        "dies-once": "dies-once",
        "good": "good",
        "dies-always": "its worker died",
        "raises": "RuntimeError: bad luck",
        "last": "last",
    }
    tries = {name: len(list(tmp_path.glob(f"{name}*"))) for name in found}
    assert tries == {"dies-once": 2, "good": 1, "dies-always": 2, "raises": 1, "last": 1}


def test_how_a_worker_ended_is_told_with_what_it_had() -> None:
    deaths = Deaths()
    deaths.look("tcp://a", os.getpid())
    deaths.ended("tcp://a", -signal.SIGKILL)
    deaths.ended("tcp://b", 3)
    with_memory = (
        r"killed by SIGKILL \(out of memory\?\), it and its guest had \S+ of memory at most, the host has \S+ left"
    )
    assert re.fullmatch(with_memory, deaths.reason("tcp://a"))
    assert re.fullmatch(r"exit code 3, the host has \S+ left", deaths.reason("tcp://b"))


def test_no_second_guest_is_started_where_others_hold_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of all guests was compared with what the host has, and not with what is left of it."""
    cluster = Cluster(work, None, 2)
    cluster._local = object()
    monkeypatch.setattr(cluster, "_workers", lambda: {name: {"nthreads": 1, "resources": {}} for name in "ab"})
    monkeypatch.setattr("terrace.bench.cluster.host_memory", lambda: 64 << 30)
    task = Task("a", 2 << 30, 1.0)
    for left, beside, alone in ((1 << 30, False, True), (2 << 30, False, True), (3 << 30, True, True)):
        monkeypatch.setattr("terrace.bench.cluster.available_memory", lambda left=left: left)
        cluster._futures = {}
        assert cluster.takes(task) is alone
        cluster._futures = {object(): (Task("b", 1 << 30, 1.0), "a")}
        assert cluster.takes(task) is beside


def test_workers_that_are_slow_to_end_do_not_fail_a_run_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(work, None, 1) as cluster:
        local: Any = cluster._local
        close = local.close

        def slow(timeout: float) -> None:
            close(timeout=timeout)
            raise TimeoutError(f"timed out after {timeout} s.")

        monkeypatch.setattr(local, "close", slow)


def test_the_workers_are_all_there_though_the_client_looks_for_them_at_the_same_time() -> None:
    """For a moment every 2 s Dask lists no workers, and the worker of each guest counted as dead."""
    with Cluster(work, None, 2) as cluster:
        client: Any = cluster._client
        sync = client.sync

        def overtaken(function: Any, *words: Any, **more: Any) -> Any:
            answer = sync(function, *words, **more)
            sync(client._update_scheduler_info)
            return answer

        client.sync = overtaken
        assert len(cluster._workers()) == 2
