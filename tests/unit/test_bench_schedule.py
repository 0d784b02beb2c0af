# SPDX-License-Identifier: GPL-2.0
"""The order of tasks: places, memory, dependencies, workers that die."""

from typing import Any

from terrace.bench.schedule import Answer, Task, run_tasks

GIB = 1 << 30


class Fake:
    """Ends one task at a time, the oldest first; `dies` is the number of deaths of a task's worker."""

    def __init__(self, places: int = 2, memory: int | None = None, dies: dict[str, int] | None = None) -> None:
        self.places, self.memory = places, memory
        self.dies = dict(dies or {})
        self.running: list[Task] = []
        self.started: list[str] = []
        self.most_memory = self.most_tasks = 0

    def takes(self, task: Task) -> bool:
        used = sum(item.memory for item in self.running)
        return len(self.running) < self.places and (self.memory is None or used + task.memory <= self.memory)

    def submit(self, task: Task, payload: Any) -> None:
        assert payload == f"payload of {task.name}"
        self.started.append(task.name)
        self.running.append(task)
        self.most_tasks = max(self.most_tasks, len(self.running))
        self.most_memory = max(self.most_memory, sum(item.memory for item in self.running))

    def wait(self, timeout_s: float) -> list[Answer]:
        task = self.running.pop(0)
        if self.dies.get(task.name, 0):
            self.dies[task.name] -= 1
            return [Answer(task.name, problem="its worker died", lost=True)]
        return [Answer(task.name, document={"name": task.name})]


def _run(tasks: list[Task], fake: Fake, bad: tuple[str, ...] = ()) -> dict[str, str]:
    found: dict[str, str] = {}

    def ended(task: Task, answer: Answer) -> bool:
        assert task.name not in found
        found[task.name] = answer.problem or "good"
        return answer.document is not None and task.name not in bad

    assert run_tasks(tasks, fake, lambda task: f"payload of {task.name}", ended) == 0
    return found


def test_never_more_than_places_nor_more_than_memory() -> None:
    tasks = [Task(f"t{n}", size * GIB, 1.0) for n, size in enumerate((6, 5, 4, 3, 8, 1))]
    fake = Fake(places=3, memory=10 * GIB)
    assert set(_run(tasks, fake).values()) == {"good"}
    assert fake.most_tasks <= 3
    assert fake.most_memory <= 10 * GIB
    # A task that does not fit is overtaken by one that does.
    assert fake.started[:2] == ["t0", "t2"]


def test_a_task_waits_for_what_it_needs() -> None:
    tasks = [Task("cell", 1, 1.0, ("pass",)), Task("other", 1, 1.0), Task("pass", 1, 1.0)]
    fake = Fake(places=1)
    assert set(_run(tasks, fake).values()) == {"good"}
    assert fake.started == ["other", "pass", "cell"]


def test_what_needs_a_failed_one_fails_by_its_name_and_others_go_on() -> None:
    tasks = [Task("pass", 1, 1.0), Task("cell", 1, 1.0, ("pass",)), Task("other", 1, 1.0)]
    found = _run(tasks, Fake(), bad=("pass",))
    assert found == {"pass": "good", "cell": "needs pass, which failed", "other": "good"}


def test_a_task_whose_workers_die_twice_has_failed_and_others_go_on() -> None:
    fake = Fake(places=1, dies={"a": 5})
    assert _run([Task("a", 1, 1.0), Task("b", 1, 1.0)], fake) == {"a": "its worker died", "b": "good"}
    assert fake.started == ["a", "a", "b"]


def test_a_task_whose_worker_died_runs_alone_the_second_time() -> None:
    """With other tasks it may die of their memory, or they of its memory."""
    fake = Fake(places=3, dies={"a": 1})
    beside: dict[int, list[str]] = {}
    submit = fake.submit

    def noted(task: Task, payload: Any) -> None:
        beside[len(fake.started)] = [other.name for other in fake.running]
        submit(task, payload)

    fake.submit = noted  # type: ignore[method-assign]
    tasks = [Task(name, 1, 1.0) for name in ("a", "b", "c", "d", "e")]
    assert set(_run(tasks, fake).values()) == {"good"}
    assert fake.started == ["a", "b", "c", "a", "d", "e"]
    assert beside[3] == []
    # And no other task starts while it runs.
    assert beside[4] == []
    assert beside[5] == ["d"]


def test_after_its_time_no_more_are_started() -> None:
    found: list[str] = []

    def ended(task: Task, answer: Answer) -> bool:
        found.append(task.name)
        return True

    tasks = [Task(f"t{n}", 1, 1.0) for n in range(5)]
    left = run_tasks(tasks, Fake(), lambda task: f"payload of {task.name}", ended, open_for_s=-1.0)
    assert (left, found) == (5, [])
