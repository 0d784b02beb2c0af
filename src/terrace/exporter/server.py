# SPDX-License-Identifier: GPL-2.0
"""The web server of the exporter: GET /metrics, and a short page at /."""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from terrace.errors import TerraceError, UsageError
from terrace.output import warn

DEFAULT = "127.0.0.1:9784"
_ALLOWED = "use ADDRESS:PORT, such as 127.0.0.1:9784, [::1]:9784 or, for all addresses, :9784; ports are 0 to 65535"
#: Time limit for a client to send its request.
_REQUEST_LIMIT_S = 10
_HOME = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>terrace exporter</title></head>
<body><h1>terrace exporter</h1>
<p>Memory tiers of this machine for Prometheus: <a href="/metrics">/metrics</a></p>
</body></html>
"""

#: Get the body of a page, and its Content-Type, for the value of an Accept header.
Render = Callable[[str], tuple[bytes, str]]


def parse_address(text: str) -> tuple[str, int]:
    """Parse host and port of ``text``; the host is empty for all addresses. Raises UsageError."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:\s]*)):(\d{1,5})", text.strip(), re.ASCII)
    if not match or int(match[3]) > 65535:
        raise UsageError(f"--listen {text}: {_ALLOWED}")
    return match[1] or match[2], int(match[3])


class Server(ThreadingHTTPServer):
    """Bound to its address when it is created; `serve_forever` answers."""

    daemon_threads = True
    #: Connections that the kernel completes before they are accepted; beyond them a client waits 1 s to send SYN again.
    request_queue_size = 128

    def __init__(self, listen: str, render: Render) -> None:
        """Raises UsageError for an invalid address, TerraceError if it is not available."""
        host, port = parse_address(listen)
        self.render = render
        #: Scrapes run one after the other: two at a time would only share the CPU.
        self.lock = threading.Lock()
        try:
            self.address_family, address = _resolve(host, port)
            super().__init__(address, _Handler)
        except socket.gaierror as error:
            raise UsageError(
                f"--listen {listen}: no address is called '{host}' ({error.strerror}); {_ALLOWED}"
            ) from error
        except OSError as error:
            raise TerraceError(f"--listen {listen}: {_refused(error)}") from error

    def server_bind(self) -> None:
        """Bind as the base class, except that `::` accepts IPv4 as well, and no name server is asked."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def url(self) -> str:
        """Address of the page of metrics."""
        name = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        return f"http://{name}:{self.server_port}/metrics"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that has disconnected."""


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    if not host:
        return (socket.AF_INET6, ("::", port)) if socket.has_dualstack_ipv6() else (socket.AF_INET, ("0.0.0.0", port))
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return found[0][0], found[0][4]


def _refused(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another process listens there (ss -ltnp shows it); choose another port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "this user may not listen there: ports below 1024 are for root; name a higher one, such as 9784"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address (ip address shows which it has); 127.0.0.1:PORT is for itself alone"
    return os.strerror(error.errno or 0)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _REQUEST_LIMIT_S
    server_version = "terrace"
    sys_version = ""

    def do_GET(self) -> None:
        """Send a page, or 404."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._metrics()
        elif path == "/":
            self._answer(200, _HOME, "text/html; charset=utf-8")
        else:
            self._answer(404, b"there is only /metrics\n", "text/plain; charset=utf-8")

    def _metrics(self) -> None:
        try:
            with self.server.lock:
                body, kind = self.server.render(self.headers.get("Accept") or "")
        except Exception as error:
            # One failed scrape is Prometheus' `up` 0; the next may succeed.
            warn(f"a scrape failed: {type(error).__name__}: {error}")
            body = f"the machine could not be read: {type(error).__name__}: {error}\n".encode("utf-8", "replace")
            self._answer(500, body, "text/plain; charset=utf-8")
            return
        self._answer(200, body, kind)

    def _refuse(self) -> None:
        self._answer(405, b"only GET\n", "text/plain; charset=utf-8", Allow="GET")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse  # noqa: N815

    def _answer(self, code: int, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log every scrape."""
