# SPDX-License-Identifier: GPL-2.0
"""Workers for guests in parallel, each a process, as many as the host has cores and memory for.

Only for guests whose time is counted in instructions: each uses one core, and its result does not
depend on the host's load.
"""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

from terrace.errors import TerraceError
from terrace.host import cpu_count
from terrace.lab.qemu import HOST_RESERVE, die_with_parent, host_memory

Item = TypeVar("Item")
Result = TypeVar("Result")


def lanes_for(memory: int) -> int:
    """Get the number of guests of this memory size that the host can run at once, one core each; at least 1."""
    return max(1, min(cpu_count(), (host_memory() - HOST_RESERVE) // max(1, memory)))


def deal(items: Sequence[Item], lanes: int) -> list[list[Item]]:
    """Assign the items to the workers in turn, in order; no worker is empty unless there are fewer items."""
    return [list(items[lane::lanes]) for lane in range(min(lanes, len(items)))]


def run_lanes(work: Callable[[Item], Iterable[Result]], items: Sequence[Item]) -> Iterator[Result]:
    """Run `work` for each item, in one process per worker; their output appears at once.

    Results are yielded as they arrive, and can be pickled. An exception in a worker ends the others
    and is raised here; an exception here, including Ctrl-C, ends all workers. Raises TerraceError
    for a worker that died.
    """
    fork = get_context("fork")
    lanes: list[ForkProcess] = []
    waiting: list[Connection] = []
    try:
        for item in items:
            # Created one by one: a worker with another one's end of a pipe would hide that the
            # other was killed.
            receiver, sender = fork.Pipe(duplex=False)
            lanes.append(fork.Process(target=_lane, args=(work, item, sender)))
            lanes[-1].start()
            sender.close()
            waiting.append(receiver)
        while waiting:
            for ready in wait(waiting):
                assert isinstance(ready, Connection)
                received = _receive(ready)
                if not received:
                    waiting.remove(ready)
                yield from received
    finally:
        for lane in lanes:
            if lane.pid is not None:
                lane.terminate()
                lane.join()


def _receive(receiver: Connection) -> Sequence[Any]:
    """Receive the next result of a worker; nothing if it has ended."""
    try:
        results, error = receiver.recv()
    except EOFError:
        raise TerraceError("a process that runs tests was killed: did the host run out of memory?") from None
    if error is not None:
        raise error
    found: Sequence[Any] = results
    return found


def _lane(work: Callable[[Item], Iterable[Result]], item: Item, sender: Connection) -> None:
    # Default handling: the handlers of the parent are for the parent only.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent(signal.SIGTERM)()
    try:
        for result in work(item):
            sender.send(([result], None))
        sender.send(([], None))
    except Exception as error:
        sender.send(([], error))
