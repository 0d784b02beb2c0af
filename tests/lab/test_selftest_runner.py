# SPDX-License-Identifier: GPL-2.0
"""Sabotage of the test runner: whatever goes wrong in the guest must make a test fail, and only the right one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from terrace.paths import repo_root
from terrace.testing.programs import find_programs
from terrace.testing.results import TestResult
from terrace.testing.selftest import STATE_CHECK, SelftestRun, run_selftests

PROGRAMS = {
    "a_good": 'puts("1..2"); puts("ok 1 first"); puts("ok 2 second # SKIP no reason");',
    "b_fails": 'puts("1..2"); puts("# five is not six"); puts("not ok 1 sum"); puts("ok 2 rest"); return 1;',
    "c_silent": "",
    "d_short": 'puts("1..3"); puts("ok 1 one");',
    "e_exit": 'puts("1..1"); puts("ok 1 one"); return 9;',
    "f_hangs": 'puts("1..1"); fflush(stdout); put("/proc/sys/vm/nr_hugepages", "3"); for (;;) pause();',
    # In another boot: what a killed program has set is gone.
    "f_then": 'puts("1..1"); puts(has("/proc/sys/vm/nr_hugepages", "0") ? "ok 1 as at boot" : "not ok 1 as at boot");',
    "g_warns": 'puts("1..1"); puts("ok 1 one"); kernel("WARNING: CPU: 0 PID: 1 at sabotage");',
    "g_warns_really": 'puts("1..1"); puts("ok 1 one"); fflush(stdout); crash("WARNING");',
    "g_oopses": 'puts("1..1"); fflush(stdout); crash("EXCEPTION"); pause();',
    "h_crashes": 'puts("1..1"); fflush(stdout); sysrq("c"); pause();',
    "i_after": 'puts("1..1"); puts("ok 1 still runs");',
    "j_skips": 'puts("1..0 # SKIP needs hardware"); return 4;',
    "k_signal": 'puts("1..1"); puts("ok 1 one"); fflush(stdout); abort();',
    # A process, a mount and a file go with their program; settings, cgroups and what a mount hides do not.
    "m_untidy": 'puts("1..1"); puts("ok 1 one"); fflush(stdout); mkdir("a", 0755); mount("a", "a", "tmpfs", 0, 0);'
    'creat("a/file", 0600); if (!fork()) { mlockall(3); pause(); }',
    "n_leaves": 'puts("1..1"); puts("ok 1 one"); put("/proc/sys/vm/nr_hugepages", "3");'
    'mkdir("/sys/fs/cgroup/left", 0755); put("/sys/kernel/mm/mtier/scan/cpu_percent", "30");',
    "o_after": 'puts("1..1"); puts("ok 1 one");',
}

SOURCE = r"""// SPDX-License-Identifier: GPL-2.0
/* lab: topology=dram-cxl timeout=5s */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		perror(path);
}

__attribute__((unused)) static int has(const char *path, const char *text)
{
	char now[64] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0 || read(fd, now, sizeof(now) - 1) < 0)
		perror(path);
	close(fd);
	return !strncmp(now, text, strlen(text));
}

__attribute__((unused)) static void kernel(const char *text) { put("/dev/kmsg", text); }
__attribute__((unused)) static void crash(const char *how)
{
	const char *path = "/sys/kernel/debug/provoke-crash/DIRECT";

	if (access(path, W_OK)) {
		puts("Bail out! no provoke-crash");
		exit(1);
	}
	put(path, how);
}

__attribute__((unused)) static void sysrq(const char *key) { put("/proc/sysrq-trigger", key); }

static void run_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Removed after a CPU has charged so many pages to it, and a second later still there, as others are? */
static int lives_on(int cpu, size_t pages, int others)
{
	char text[256] = "", gone[40], *p;
	int fd;

	run_on(cpu);
	mkdir("/sys/fs/cgroup/gone", 0755);
	put("/sys/fs/cgroup/gone/cgroup.procs", "0");
	p = mmap(0, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(p, 1, pages << 12);
	munmap(p, pages << 12);
	run_on(0);
	put("/sys/fs/cgroup/cgroup.procs", "0");
	rmdir("/sys/fs/cgroup/gone");
	snprintf(gone, sizeof(gone), "nr_dying_descendants %d\n", others);
	for (int i = 0; i < 100 && !strstr(text, gone); i++) {
		usleep(10000);
		fd = open("/sys/fs/cgroup/cgroup.stat", O_RDONLY);
		memset(text, 0, sizeof(text));
		if (read(fd, text, sizeof(text) - 1) < 0)
			perror("cgroup.stat");
		close(fd);
	}
	return !strstr(text, gone);
}

/* A CPU charges 64 pages at a time, and keeps a cgroup whose last batch is just used up; some go for page tables. */
__attribute__((unused)) static int nr_kept(void)
{
	int kept = 0;

	put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	for (int cpu = 1; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++)
		for (size_t pages = 64; pages > 40; pages--)
			if (lives_on(cpu, pages, kept)) {
				kept++;
				break;
			}
	return kept;
}

int main(void)
{
	@BODY@
	return 0;
}
"""


@pytest.fixture(scope="module")
def results(vmlinux: Path, tmp_path_factory: pytest.TempPathFactory) -> list[TestResult]:
    folder = tmp_path_factory.mktemp("programs")
    for name, body in PROGRAMS.items():
        (folder / f"{name}.c").write_text(SOURCE.replace("@BODY@", body))
    (folder / "l_broken.c").write_text("int main(void) { return nonesuch; }\n")
    return list(run_selftests(SelftestRun("selftest", vmlinux), find_programs(folder)))


def own(results: Iterable[TestResult]) -> list[TestResult]:
    """Without the runner's own check where that passed."""
    return [r for r in results if r.status != "pass" or not r.name.endswith(f":{STATE_CHECK}")]


def of(results: list[TestResult], program: str) -> dict[str, tuple[str, str]]:
    return {r.name: (r.status, r.detail) for r in own(results) if r.name.partition(":")[0] == program}


def test_good_and_skipped_are_told_apart(results: list[TestResult]) -> None:
    assert of(results, "a_good") == {"a_good:first": ("pass", ""), "a_good:second": ("skip", "no reason")}
    assert of(results, "j_skips") == {"j_skips": ("skip", "needs hardware")}


def test_failure_keeps_its_diagnostics(results: list[TestResult]) -> None:
    assert of(results, "b_fails") == {
        "b_fails:sum": ("fail", "five is not six"),
        "b_fails:rest": ("pass", ""),
    }


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("c_silent", "no plan line"),
        ("d_short", "3 results were announced, 1 came"),
        ("e_exit", "exit code 9"),
        ("f_hangs", "did not end within 5 s"),
        ("g_warns", "the kernel reported: WARNING: CPU: 0 PID: 1 at sabotage"),
        ("g_warns_really", "the kernel reported: WARNING: CPU: "),
        ("g_oopses", "lkdtm"),
        ("h_crashes", "sysrq triggered crash"),
        ("k_signal", "killed by signal 6"),
        ("l_broken", "does not compile"),
    ],
)
def test_nothing_passes_in_silence(results: list[TestResult], program: str, words: str) -> None:
    if "bailed out: no provoke-crash" in str(of(results, program)):
        pytest.skip("this kernel has no LKDTM")
    status, detail = of(results, program)[program]
    assert status == "fail"
    assert words in detail


def test_what_is_left_behind_is_named_and_blames_no_other(results: list[TestResult]) -> None:
    status, detail = of(results, "n_leaves")[f"n_leaves:{STATE_CHECK}"]
    assert status == "fail"
    assert "HugePages_Total: 0 before, 3 after" in detail
    assert "cgroups: 0 before, 1 after" in detail
    assert "dying" not in detail
    assert "/sys/kernel/mm/mtier/scan/cpu_percent: " in detail
    for tidied in ("m_untidy", "o_after"):
        assert of(results, tidied) == {f"{tidied}:one": ("pass", "")}


def test_what_a_hanging_program_has_set_is_gone(results: list[TestResult]) -> None:
    """A killed program cannot restore settings, and the next one was blamed for them."""
    assert of(results, "f_then") == {"f_then:as at boot": ("pass", "")}
    assert not [r for r in results if r.name.startswith("machine:")]


def test_crash_is_blamed_on_the_test_that_ran_and_the_rest_goes_on(results: list[TestResult]) -> None:
    assert of(results, "i_after") == {"i_after:still runs": ("pass", "")}
    assert [r.name for r in results if r.name.startswith("machine:")] == []


def test_a_cgroup_that_linux_keeps_is_no_leak(vmlinux: Path, tmp_path: Path) -> None:
    body = 'puts("1..1"); puts(nr_kept() ? "ok 1 one" : "ok 1 one # SKIP none was kept");'
    text = SOURCE.replace("@BODY@", body).replace("timeout=5s", "cpus=8 timeout=60s")
    (tmp_path / "a.c").write_text(text)
    one, state = run_selftests(SelftestRun("selftest", vmlinux), find_programs(tmp_path))
    # Where no CPU kept one there was nothing to show.
    assert one.status in ("pass", "skip"), one.detail
    assert (state.name, state.status) == (f"a:{STATE_CHECK}", "pass"), state.detail


def test_leaks_that_nobody_looked_for_are_no_pass(vmlinux: Path, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(SOURCE.replace("@BODY@", PROGRAMS["i_after"]))
    results = list(run_selftests(SelftestRun("selftest-debug", vmlinux, leaks=True), find_programs(tmp_path)))
    assert of(results, "a") == {"a:still runs": ("pass", "")}
    status, detail = of(results, "kmemleak")["kmemleak:dram-cxl"]
    # On a kernel with kmemleak this test has nothing to show.
    assert status == "pass" or "kmemleak is not available" in detail


def test_machines_that_count_instructions_lose_nothing(vmlinux: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        text = SOURCE.replace("@BODY@", PROGRAMS["i_after"]).replace("timeout=5s", "timeout=5s icount=3")
        (tmp_path / f"{name}.c").write_text(text)
    found = run_selftests(SelftestRun("selftest", vmlinux), find_programs(tmp_path))
    assert sorted((r.name, r.status) for r in own(found)) == [(f"{name}:still runs", "pass") for name in "abc"]


def test_time_that_flies_does_not_count(vmlinux: Path, tmp_path: Path) -> None:
    # As where a guest that counts instructions waits for the host: idle, and its clock jumps from timer to timer.
    bodies = {"a_idle": "sleep(60);" + PROGRAMS["i_after"], "b_busy": 'for (;;) __asm__ volatile("");'}
    for name, body in bodies.items():
        text = SOURCE.replace("@BODY@", body).replace("timeout=5s", "timeout=2s icount=3")
        (tmp_path / f"{name}.c").write_text(text)
    results = run_selftests(SelftestRun("selftest", vmlinux), find_programs(tmp_path))
    found = {result.name: (result.status, result.detail) for result in own(results)}
    assert found.pop("a_idle:still runs") == ("pass", "")
    status, detail = found.pop("b_busy")
    assert (status, "did not end within 2 s" in detail) == ("fail", True)
    assert not found


@pytest.mark.parametrize("machine", ["", " icount=3"])
def test_ctrl_c_ends_the_tests_not_only_one_boot(vmlinux: Path, tmp_path: Path, machine: str) -> None:
    # Not idle: where time is counted in instructions the time of an idle guest flies.
    body = 'for (;;) __asm__ volatile("");'
    source = SOURCE.replace("@BODY@", body).replace("timeout=5s", f"timeout=900s{machine}")
    for name in ("a", "b"):
        (tmp_path / f"{name}.c").write_text(source)
    program = (
        "import os, signal, sys; from pathlib import Path; from terrace.testing.programs import find_programs\n"
        # Ignored where the tests run in the background of a shell.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from terrace.testing.selftest import SelftestRun, run_selftests\n"
        # A line in one write: two processes print at the same time.
        "run = SelftestRun('selftest', Path(sys.argv[1]), note=lambda text: os.write(1, (text + '\\n').encode()))\n"
        "print(list(run_selftests(run, find_programs(Path(sys.argv[2])))))"
    )
    command = [sys.executable, "-c", program, str(vmlinux), str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(repo_root() / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"booting")
        time.sleep(6)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    # Of machines that count instructions two may run.
    assert set(out.splitlines()) <= ({b"booting dram-cxl icount=3 for 1 program"} if machine else set())
    assert b"KeyboardInterrupt" in err
