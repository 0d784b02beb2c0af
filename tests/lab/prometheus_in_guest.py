# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: Prometheus scrapes the exporter while pages go up; prints what it then answers, as JSON."""

import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXPORTER, PROMETHEUS = "127.0.0.1:9784", "127.0.0.1:9090"
LIMIT_S = 120
EVERY_S = 1
CONFIG = {
    "global": {"scrape_interval": f"{EVERY_S}s"},
    "scrape_configs": [{"job_name": "terrace", "static_configs": [{"targets": [EXPORTER]}]}],
}


def wait(what: str, ready: Callable[[], bool]) -> None:
    """Until it is; ends the script when that takes too long."""
    end = time.monotonic() + LIMIT_S
    while not ready():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {LIMIT_S} s")
        time.sleep(EVERY_S / 2)


def ask(query: str) -> list[Any]:
    """What a query finds now; nothing while nobody listens yet."""
    url = f"http://{PROMETHEUS}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except OSError:
        return []


def number(query: str) -> float:
    """The only value that a query finds; -1 if it finds none."""
    return float((ask(query) or [{"value": (0, "-1")}])[0]["value"][1])


def counted(name: str) -> int:
    """A counter of /proc/vmstat."""
    words = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(words[name])


def main() -> None:
    terrace, load, *queries = sys.argv[1:]
    os.chdir("/tmp")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("prometheus.json").write_text(json.dumps(CONFIG))
    server = ["prometheus", "--config.file=prometheus.json", "--storage.tsdb.path=prometheus"]
    server += [f"--web.listen-address={PROMETHEUS}", "--log.level=error"]
    # The environment of the tests has prometheus_client.
    exporter = [sys.executable, "-m", "terrace", "exporter"]
    started = [subprocess.Popen(command, stdout=sys.stderr) for command in (exporter, server)]
    try:
        wait("the first scrape", lambda: number("terrace_engine_enabled") == 0)
        subprocess.run([terrace, "set", "enabled=1"], check=True, stdout=sys.stderr)
        subprocess.run([sys.executable, "-c", load], check=True, stdout=sys.stderr)
        subprocess.run([terrace, "set", "enabled=0"], check=True, stdout=sys.stderr)
        promoted = counted("pgpromote_success")
        wait("the last scrape", lambda: number("terrace_promoted_pages_total") == promoted)
        answers = {query: ask(query) for query in queries}
        print(json.dumps({"promoted_pages": promoted, "answers": answers}))
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


if __name__ == "__main__":
    main()
