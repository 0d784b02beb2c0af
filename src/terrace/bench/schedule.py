# SPDX-License-Identifier: GPL-2.0
"""Order of the tasks: tasks with dependencies, on an executor with a number of places and an amount
of memory.

A task whose worker dies is tried once more, alone: the cause may have been the memory of other
tasks, and the task must not kill these. A failed task fails only the tasks that depend on it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from terrace.output import warn

_TICK_S = 0.5
_TRIES = 2


@dataclass(frozen=True)
class Task:
    """One guest: `memory` in bytes, `needs` are names of tasks that must have succeeded before."""

    name: str
    memory: int
    expected_s: float
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Result of a task: a document, or the reason for none; `lost`: its worker died."""

    name: str
    document: dict[str, Any] | None = None
    problem: str = ""
    lost: bool = False


class Executor(Protocol):
    """Executor of the tasks."""

    def takes(self, task: Task) -> bool:
        """Whether there is a free place and memory for it now. Workers may come and go."""

    def submit(self, task: Task, payload: Any) -> None:
        """Start the task."""

    def wait(self, timeout_s: float) -> list[Answer]:
        """Get the tasks that have ended since."""


class Plan:
    """State of a run: waiting, running and finished tasks."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.waiting = list(tasks)
        self.running: dict[str, Task] = {}
        self.good: set[str] = set()
        self.bad: set[str] = set()
        self._tries: dict[str, int] = {}

    def next(self, takes: Callable[[Task], bool]) -> Task | None:
        """Get the first task that can start now: its dependencies are met, the executor takes it,
        and no task has to run alone.
        """
        # A task in its second try, or waiting for it, has been tried before.
        again = any(self._tries[name] > 1 for name in self.running) or any(t.name in self._tries for t in self.waiting)
        if again and self.running:
            return None
        for task in self.waiting:
            if all(need in self.good for need in task.needs) and takes(task):
                return task
        return None

    def start(self, task: Task) -> None:
        """Mark the task as running."""
        self.waiting.remove(task)
        self.running[task.name] = task
        self._tries[task.name] = self._tries.get(task.name, 0) + 1

    def again(self, name: str) -> bool:
        """After the death of its worker, put it first in the line, to run alone; False after too many tries."""
        task = self.running.pop(name)
        if self._tries[name] >= _TRIES:
            return False
        self.waiting.insert(0, task)
        return True

    def end(self, name: str, good: bool) -> None:
        """Mark the task as finished."""
        self.running.pop(name, None)
        (self.good if good else self.bad).add(name)

    def hopeless(self) -> list[tuple[Task, str]]:
        """Get the tasks that depend on a failed one, with its name, and remove them."""
        found = [(task, need) for task in self.waiting for need in task.needs if need in self.bad]
        for task, _ in found:
            if task in self.waiting:
                self.waiting.remove(task)
                self.bad.add(task.name)
        return found


def run_tasks(
    tasks: Sequence[Task],
    executor: Executor,
    payload: Callable[[Task], Any],
    ended: Callable[[Task, Answer], bool],
    tick: Callable[[Plan], None] = lambda plan: None,
    open_for_s: float | None = None,
) -> int:
    """Run all tasks. `ended` is called with each result and returns whether it succeeded.

    After `open_for_s` no further task is started; returns the number of tasks left.
    """
    plan = Plan(tasks)
    by_name = {task.name: task for task in tasks}
    began = time.monotonic()
    left = 0
    while plan.waiting or plan.running:
        if open_for_s is not None and time.monotonic() - began > open_for_s:
            left += len(plan.waiting)
            plan.waiting.clear()
        while task := plan.next(executor.takes):
            plan.start(task)
            executor.submit(task, payload(task))
        if not plan.running and plan.waiting:
            time.sleep(_TICK_S)  # no place at all: the workers have gone, others may come
        for answer in executor.wait(_TICK_S) if plan.running else ():
            if answer.lost and plan.again(answer.name):
                warn(f"{answer.name}: {answer.problem}; tried again, alone")
                continue
            plan.end(answer.name, ended(by_name[answer.name], answer))
        for task, need in plan.hopeless():
            ended(task, Answer(task.name, problem=f"needs {need}, which failed"))
        tick(plan)
    return left
