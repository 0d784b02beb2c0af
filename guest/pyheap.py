# SPDX-License-Identifier: GPL-2.0
"""What pyheap's interpreters run: a cache of records in a dict, as large as it is told, and zipfian look-ups in it.

guest/pyheap.c starts pyheap.py SIZE SEED CHILD THETA WRITE_PERCENT, THETA in thousandths, and speaks with it in lines:

    it prints                           it reads
    ready OBJECTS BYTES PYTHON          go OPS        look up so often
    done OPS WRITES WRONG CHECKSUM      spoil         damage the record that is looked up most
    checked WRONG VERSIONS              check         look at all of every record

BYTES is what the heap has made the process grow by. It ends with its input, and at a line that it does not know.

The work is the same in each run with the same words. Only Python's own library, and of that what starts fast.
"""

import os
import sys
from itertools import repeat
from random import Random

# Memory for each object, with its key and its part of the dict: measured with CPython 3.11; a test measures it again.
BYTES_PER_OBJECT = 2950
PAGE = 4096

BLOCK = bytes(range(256)) * 16
TEXT = "".join(chr(32 + i % 95) for i in range(2048))
# Texts and bytes by turns, each in a size class of Python's allocator, and so on a page, of its own.
SOURCES: tuple[str | bytes, ...] = (TEXT, BLOCK) * 4
FIELDS = tuple(zip(SOURCES, (16, 40, 64, 88, 120, 160, 208, 272), strict=True))
STARTS = 1024
# Bodies: small ones come from Python's own allocator, large ones from the C library's.
LENGTHS = (240, 400, 640, 880, 1200, 1600, 2240)
BODIES = tuple(BLOCK[start : start + length] for start, length in enumerate(LENGTHS))
KINDS = len(BODIES)
# The checksum stays below this, so that it is a small whole number.
MODULUS = 1_000_003

# Fields that follow from number and version, these two first; the body; the fields' hash, number and version.
Record = tuple[tuple[int | str | bytes, ...], bytes, list[int]]


def record_of(number: int, version: int) -> Record:
    """The record that object `number` has after so many writes; all of it is new memory."""
    start, kind = (number * 31 + version * 7) % STARTS, number % KINDS
    fields = (number, version, *[source[start : start + length] for source, length in FIELDS])
    return fields, BLOCK[kind : kind + LENGTHS[kind]], [hash(fields), number, version]


class Cache:
    """The objects by their keys, in the order of their numbers, which is how they lie in memory at first."""

    def __init__(self, size: int) -> None:
        self.objects = max(1, size // BYTES_PER_OBJECT)
        self.stride = stride_of(self.objects)
        self.keys = [f"session:{number:08d}" for number in range(self.objects)]
        self.records: dict[str, Record] = {key: record_of(number, 0) for number, key in enumerate(self.keys)}

    def serve(self, random: Random, ops: int, theta: float, write_percent: int) -> tuple[int, int, int]:
        """Look up `ops` keys and write some of their records anew; returns writes, wrong records, and a checksum.

        Ranks 1, 2, … are as likely as rank^-theta: the whole number next to an x of density x^-theta, which needs no
        table that would be hot memory itself. At theta 1 rank 1 gets a tenth more than its share so, rank 4 and all
        after it what is theirs within two hundredths. Ranks that follow one another are objects far apart.
        """
        draw, records, keys, bodies, kinds = random.random, self.records, self.keys, BODIES, KINDS
        objects, stride = self.objects, self.stride
        low, span, power = zipf_of(objects, theta)
        writes = wrong = checksum = 0
        for _ in repeat(None, ops):
            number = int((low + draw() * span) ** power + 0.5) * stride % objects
            key = keys[number]
            fields, body, marks = records[key]
            # Texts and bytes know their hashes, so of each field the first line is read; of the body it is all lines.
            if hash(fields) != marks[0] or marks[1] != number or body != bodies[number % kinds]:
                wrong += 1
            checksum = (checksum + number) % MODULUS
            # All that was looked up until now decides: that is cheaper than another random number.
            if checksum % 100 < write_percent:
                records[key] = record_of(number, marks[2] + 1)
                writes += 1
        return writes, wrong, checksum

    def check(self) -> tuple[int, int]:
        """Wrong records, and the versions of the right ones added up."""
        wrong = abs(len(self.records) - self.objects)
        versions = 0
        for number, key in enumerate(self.keys):
            record = self.records.get(key)
            version = record[2][2] if record else -1
            if record != record_of(number, version):
                wrong += 1
            else:
                versions += version
        return wrong, versions

    def spoil(self) -> None:
        """Change the last byte of the body that is read most, and nothing else."""
        key = self.keys[self.stride % self.objects]
        fields, body, marks = self.records[key]
        self.records[key] = (fields, body[:-1] + bytes([body[-1] ^ 1]), marks)


def zipf_of(count: int, theta: float) -> tuple[float, float, float]:
    """`low`, `span`, `power`: with a random u from 0 to 1 (low + u * span)^power has the density x^-theta.

    It lies from 1/2 to `count` + 1/2.
    """
    # The integral of 1/x is no power; that of one so near to it differs by less than anybody can tell.
    rest = 1 - theta if abs(1 - theta) > 1e-6 else 1e-6
    low = 0.5**rest
    return low, (count + 0.5) ** rest - low, 1 / rest


def stride_of(count: int) -> int:
    """A step that comes by every number below `count`."""
    stride = count * 618 // 1000 | 1
    while not coprime(count, stride):
        stride += 2
    return stride


def coprime(x: int, y: int) -> bool:
    """True when no number but 1 divides both."""
    while y:
        x, y = y, x % y
    return x == 1


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def say(*words: object) -> None:
    """One line for the launcher."""
    print(*words, flush=True)


def main(size: int, seed: int, child: int, theta_milli: int, write_percent: int) -> None:
    """Build the cache, then do as the lines say."""
    before = resident()
    cache = Cache(size)
    random = Random(seed << 8 | child)
    say("ready", cache.objects, resident() - before, ".".join(map(str, sys.version_info[:3])))
    for line in sys.stdin:
        match line.split():
            case ["go", ops]:
                writes, wrong, checksum = cache.serve(random, int(ops), theta_milli / 1000, write_percent)
                say("done", ops, writes, wrong, f"{checksum:016x}")
            case ["spoil"]:
                cache.spoil()
            case ["check"]:
                say("checked", *cache.check())
            case _:
                sys.exit(f"pyheap.py: '{line.strip()}' is not go OPS, spoil or check")
    # Taking the heap down object by object would be of no use to anybody.
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit("pyheap.py: wants SIZE SEED CHILD THETA WRITE_PERCENT")
    main(*map(int, sys.argv[1:]))
