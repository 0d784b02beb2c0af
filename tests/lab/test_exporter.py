# SPDX-License-Identifier: GPL-2.0
"""The exporter as it is used: a Prometheus in the guest scrapes it, and the dashboard's queries have answers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_record import LOAD, PAGES

from terrace.paths import repo_root

IN_GUEST = Path(__file__).with_name("prometheus_in_guest.py")
BOARD = repo_root() / "src/terrace/exporter/dashboard.json"
#: Panels that show something only where it is on, or where there are control groups.
ELSEWHERE = {"Most slow memory", "Share on slow memory", "Promoted and demoted"}


def queries() -> dict[str, str]:
    """Queries of the dashboard as Grafana would ask them for all that there is, and their panels."""
    found = {}
    for panel in json.loads(BOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "5m")
            for variable in ("$instance", "$node", "$cgroup"):
                query = query.replace(variable, ".*")
            found[query] = panel["title"]
    return found


@pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus: apt-get install prometheus")
def test_prometheus_has_what_the_kernel_counted(vmlinux: Path) -> None:
    asked = queries()
    inside = [
        "env",
        f"PYTHONPATH={repo_root() / 'src'}",
        sys.executable,
        str(IN_GUEST),
        str(repo_root() / "terrace"),
        LOAD,
        *asked,
    ]
    words = ["lab", "run", "--topology", "dram-cxl", "--vmlinux", str(vmlinux), "--", *inside]
    done = subprocess.run(
        [str(repo_root() / "terrace"), *words],
        capture_output=True,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["promoted_pages"] >= PAGES * 9 // 10
    silent = {asked[query] for query, answer in told["answers"].items() if not answer}
    assert silent <= ELSEWHERE
    (up,) = [answer for query, answer in told["answers"].items() if query.startswith("rate(terrace_promoted_pages")]
    assert float(up[0]["value"][1]) > 0
