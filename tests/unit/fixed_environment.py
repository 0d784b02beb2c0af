# SPDX-License-Identifier: GPL-2.0
"""One environment for all tests of this folder: variables, signals, file mode mask, time zone.

Without it the tests, and the processes that they start, would depend on their caller: `nohup` ignores SIGHUP, a git
hook sets GIT_DIR, make sets MAKEFLAGS, and users differ in umask and ~/.gitconfig. docs/reference/test.md lists what is
kept.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

from terrace.paths import cache_dir

#: Variables that the caller sets: search paths, the folder for temporary files, and two switches of Terrace.
KEPT = frozenset({"PATH", "LD_LIBRARY_PATH", "TMPDIR", "TERRACE_ACCEPT", "TERRACE_LINUX", "TERRACE_YES"})
#: pytest's own.
KEPT_PREFIX = "PYTEST_"
FIXED = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "TZ": "UTC", "GIT_CONFIG_NOSYSTEM": "1"}
# In a container the checkout may belong to another user: git reads it without an entry in ~/.gitconfig.
FIXED |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
UMASK = 0o022
#: All signals whose effect can be set, except SIGINT, which Python turns into KeyboardInterrupt.
DEFAULT_SIGNALS = frozenset(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGINT})
# Python ignores them for itself, and gives them back their effect in the processes that it starts.
_PYTHON_IGNORES = {signal.SIGPIPE, signal.SIGXFSZ}

# The folder of HOME; Python removes it at exit.
_home: tempfile.TemporaryDirectory[str] | None = None


def _python_first(home: Path) -> Path:
    """Make a folder for PATH whose `python3` is the interpreter of the tests itself.

    The first one of PATH may be a shim of a version manager, which starts bash several times before Python: half of the
    time of each `./terrace`. A script, not a link: an environment that ./terrace makes must not name this folder.
    """
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(os.path.realpath(sys.executable))} "$@"\n')
    python.chmod(0o755)
    return folder


def fix() -> None:
    """Give this process, and so all that it starts, the environment of the tests."""
    global _home
    # All runs share the cache of compiled test programs; its default place depends on HOME and XDG_CACHE_HOME.
    cache = str(cache_dir())
    _home = _home or tempfile.TemporaryDirectory(prefix="terrace-home-")
    for name in list(os.environ):
        if name not in KEPT and not name.startswith(KEPT_PREFIX):
            del os.environ[name]
    os.environ["PATH"] = f"{_python_first(Path(_home.name))}:{os.environ.get('PATH', os.defpath)}"
    # Without a folder of its own matplotlib writes into HOME.
    os.environ.update(FIXED, HOME=_home.name, TERRACE_CACHE=cache, MPLCONFIGDIR=f"{cache}/matplotlib")
    time.tzset()
    os.umask(UMASK)
    Path(_home.name).chmod(0o755)
    for number in DEFAULT_SIGNALS - _PYTHON_IGNORES:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
