# SPDX-License-Identifier: GPL-2.0
"""`terrace exporter` as it is called: the server, the file, the JSON, and what is refused."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from exporter_tree import full
from ops_golden import run
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

import strict_schema
from terrace import __main__ as door
from terrace import cli, venv
from terrace.errors import TerraceError, UsageError
from terrace.exporter import server, textfile
from terrace.exporter.collector import as_accepted
from terrace.exporter.machine import look
from terrace.paths import repo_root
from terrace.sysfs import KernelFiles

# Terminals, sockets, signals: one at a time, after the tests that share the CPUs.
pytestmark = pytest.mark.clock


@contextmanager
def serving(root: Path, listen: str = "127.0.0.1:0", render: server.Render | None = None) -> Iterator[server.Server]:
    def page(accept: str) -> tuple[bytes, str]:
        return as_accepted(lambda: look(KernelFiles(root), 50, 3), accept)

    with server.Server(listen, render or page) as own:
        thread = threading.Thread(target=own.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield own
        finally:
            own.shutdown()
            thread.join()


def ask(own: server.Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    asked = http.client.HTTPConnection(own.server_name, own.server_port, timeout=60)
    asked.request(method, path, headers=headers)
    answer = asked.getresponse()
    text = answer.read().decode("utf-8")
    asked.close()
    return answer.status, dict(answer.getheaders()), text


def test_metrics_and_the_short_page(tmp_path: Path) -> None:
    full(tmp_path)
    with serving(tmp_path) as own:
        code, headers, text = ask(own, "/metrics")
        assert code == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert len(list(text_string_to_metric_families(text))) > 80
        assert int(headers["Content-Length"]) == len(text.encode())
        assert "Python" not in headers["Server"]
        code, headers, text = ask(own, "/")
        assert code == 200 and '<a href="/metrics">' in text and headers["Content-Type"].startswith("text/html")
        assert ask(own, "/metrics?x=1")[0] == 200
        assert ask(own, "/metrics/")[0] == ask(own, "/../etc/passwd")[0] == 404


def backlog(own: server.Server) -> int:
    """Longest queue of connections that the kernel keeps for a listening socket: tcpi_sacked of struct tcp_info."""
    info = own.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int(struct.unpack_from("8B6I", info)[-1])


def test_a_burst_of_scrapes_waits_in_the_queue_of_the_socket() -> None:
    """With a queue of 5 the kernel dropped the SYNs of a burst, and each client waited 1 s for its second one."""
    limit = int(Path("/proc/sys/net/core/somaxconn").read_text())
    with server.Server("127.0.0.1:0", lambda accept: (b"", "")) as own:
        assert backlog(own) == min(128, limit)
        # Nobody accepts: each of these is answered by the kernel alone, or not at all.
        clients = [socket.socket() for _ in range(min(128, limit))]
        try:
            for client in clients:
                client.settimeout(60)
                client.connect((own.server_name, own.server_port))
            retries = [client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104) for client in clients]
            # tcpi_total_retrans
            assert [struct.unpack_from("I", info, 100)[0] for info in retries] == [0] * len(clients)
        finally:
            for client in clients:
                client.close()


def test_openmetrics_where_prometheus_asks_for_it(tmp_path: Path) -> None:
    full(tmp_path)
    with serving(tmp_path) as own:
        _, headers, text = ask(own, "/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n") and len(list(open_metrics(text))) > 80  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_nothing_but_get(method: str, tmp_path: Path) -> None:
    full(tmp_path)
    with serving(tmp_path) as own:
        code, headers, _ = ask(own, "/metrics", method)
    assert (code, headers["Allow"]) == (405, "GET")


def test_each_scrape_is_a_new_look(tmp_path: Path) -> None:
    tree = full(tmp_path)
    with serving(tmp_path) as own:
        for value in (11, 12):
            tree.vmstat(pgpromote_success=value)
            assert f"terrace_promoted_pages_total {value}.0\n" in ask(own, "/metrics")[2]


def test_a_scrape_that_fails_is_told_and_the_next_one_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fail = [True, False]

    def render(accept: str) -> tuple[bytes, str]:
        if fail.pop(0):
            raise RuntimeError("no memory")
        return b"x 1\n", "text/plain"

    with serving(tmp_path, render=render) as own:
        code, _, text = ask(own, "/metrics")
        assert (code, "RuntimeError: no memory" in text) == (500, True)
        assert ask(own, "/metrics")[::2] == (200, "x 1\n")
    assert "a scrape failed: RuntimeError: no memory" in capsys.readouterr().err


@pytest.mark.skipif(not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
def test_ipv6(tmp_path: Path) -> None:
    full(tmp_path)
    with serving(tmp_path, "[::1]:0") as own:
        assert own.url == f"http://[::1]:{own.server_port}/metrics"
        assert ask(own, "/")[0] == 200


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:9784", "127.0.0.1", 9784), ("[::1]:1", "::1", 1), (":0", "", 0), ("localhost:80", "localhost", 80)],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert server.parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", "9784", "127.0.0.1", "::1:9784", "[::1]", "a:b", "x:65536", "x:-1", "x:1 2", "[]:1"]
)
def test_what_is_no_address_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError, match=rf"--listen {re.escape(text)}: use ADDRESS:PORT, such as 127\.0\.0\.1:9784"):
        run("exporter", "--listen", text)


def test_an_address_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def page(accept: str) -> tuple[bytes, str]:
        return b"", ""

    with serving(tmp_path) as own, pytest.raises(TerraceError, match="another process listens there"):
        server.Server(f"127.0.0.1:{own.server_port}", page)
    with pytest.raises(TerraceError, match="this machine has no such address"):
        server.Server("192.0.2.1:9784", page)
    with pytest.raises(UsageError, match="no address is called 'no.such.invalid'"):
        server.Server("no.such.invalid:9784", page)

    def bind(own: server.Server) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(server.Server, "server_bind", bind)
    with pytest.raises(TerraceError, match="--listen 127.0.0.1:80: this user may not listen there: ports below 1024"):
        server.Server("127.0.0.1:80", page)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_being_told_to_end_is_no_failure(number: signal.Signals, tmp_path: Path) -> None:
    full(tmp_path)
    words = [sys.executable, "-m", "terrace", "exporter", "--listen", "127.0.0.1:0", "--root", str(tmp_path)]
    own = subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": str(repo_root() / "src")},
        stderr=subprocess.PIPE,
        text=True,
        # A background job of a shell, which this test can be, ignores Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    assert own.stderr is not None
    said = own.stderr.readline()
    port = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", said)
    assert port, said
    with socket.create_connection(("127.0.0.1", int(port[1])), timeout=60):
        own.send_signal(number)
        assert own.wait(timeout=60) == 0
    assert "Traceback" not in own.stderr.read()
    own.stderr.close()


def test_the_file_is_whole_readable_and_the_only_one(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "textfile"
    full(root)
    folder.mkdir()
    file = folder / "terrace.prom"
    file.write_text("old")
    before = os.umask(0o077)
    try:
        assert run("exporter", "--textfile", str(file), "--root", str(root)) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert len(list(text_string_to_metric_families(file.read_text()))) > 80
    assert [path.name for path in folder.iterdir()] == ["terrace.prom"]


def test_a_file_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "terrace.prom"
    file.write_text("old")

    def full_disk(number: int) -> None:
        # Meanwhile a reader of the folder sees one file that ends in .prom.
        assert [path.name for path in tmp_path.glob("*.prom")] == ["terrace.prom"]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(
        TerraceError, match=f"--textfile {re.escape(str(file))}: no space left in {re.escape(str(file.parent))}"
    ):
        textfile.write(file, b"new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("terrace.prom", "old")]


@pytest.mark.parametrize(
    ("name", "why"),
    [("terrace.txt", "only names that end in .prom"), ("a/b.prom", "there is no folder"), ("folder.prom", "a folder")],
)
def test_a_file_that_nobody_would_read_is_refused(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "folder.prom").mkdir()
    with pytest.raises(UsageError, match=why):
        run("exporter", "--textfile", str(tmp_path / name))


def test_the_text_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full(tmp_path)
    assert run("exporter", "--textfile", "-", "--root", str(tmp_path)) == 0
    assert len(list(text_string_to_metric_families(capsys.readouterr().out))) > 80


def test_the_json_follows_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full(tmp_path)
    assert run("exporter", "--json", "--root", str(tmp_path)) == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((repo_root() / "docs/reference/schema/metrics.schema.json").read_text())
    strict_schema.validate(document, schema)
    (memory,) = [metric for metric in document["metrics"] if metric["name"] == "terrace_node_memory_bytes"]
    assert {"labels": {"node": "1", "tier": "memory_tier22", "state": "total"}, "value": 1 << 30} in memory["samples"]
    assert "| `terrace exporter --json` | `metrics` |" in (repo_root() / "docs/reference/json.md").read_text()


def test_text_and_json_are_of_one_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full(tmp_path)
    file, prom = tmp_path / "out.json", tmp_path / "out.prom"
    root = ["--root", str(tmp_path)]
    took = re.compile(r"^terrace_scrape_duration_seconds (.*)$", re.MULTILINE)
    for words in (["-o", str(file)], ["-o", str(file), "--textfile", str(prom)], ["--json", "--textfile", str(prom)]):
        assert run("exporter", *words, *root) == 0
        said = capsys.readouterr().out
        document = json.loads(said if "--json" in words else file.read_text())
        text = took.search(prom.read_text() if "--textfile" in words else said)
        assert text and document["metrics"][-1]["samples"] == [{"labels": {}, "value": float(text[1])}]
        assert said == "" or "--json" in words or "--textfile" not in words


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--listen :1 --json", "--listen serves"),
        ("--dashboard --json", "redirect it"),
        ("--textfile - --json", "both print"),
        ("--root /no/such/folder", "there is no such folder"),
        ("--cgroups -1", "a whole number from 0"),
        ("--depth 0", "a whole number from 1"),
    ],
)
def test_words_that_do_not_go_together_are_refused(words: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        run("exporter", *words.split())


def test_packages_are_asked_for_only_where_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full(tmp_path)
    entered: list[str] = []
    monkeypatch.setattr(venv, "enter", lambda needs, words: entered.append(needs))
    text = ["exporter", "--textfile", "-", "--root", str(tmp_path)]
    assert door._run(text) == 0
    assert entered == [], "Python has it already"
    verbs = cli.verbs()
    # It looks for its modules in the same way.
    monkeypatch.setattr(cli, "verbs", lambda: verbs)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for words in (["exporter", "--dashboard"], ["exporter", "--json", "--root", str(tmp_path)]):
        assert door._run(words) == 0
    assert entered == []
    assert door._run(text) == 0
    assert entered == ["exporter"]
    capsys.readouterr()
