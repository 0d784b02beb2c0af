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

# Last: some files of both folders have the same name.
sys.path.append(str(Path(__file__).resolve().parents[1] / "unit"))

from test_exporter_dashboard import for_all, queries

IN_GUEST = Path(__file__).with_name("prometheus_in_guest.py")
#: Panels of control groups: the guest has none mounted.
ELSEWHERE = {"Most slow memory", "Share on slow memory", "Promoted and demoted"}


@pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus: apt-get install prometheus")
def test_prometheus_has_what_the_kernel_counted(vmlinux: Path) -> None:
    asked = {for_all(query, "5m"): panel for panel, query, _ in queries()}
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
