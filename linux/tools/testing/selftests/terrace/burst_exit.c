// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: kmtierd does not keep an executable or a file system busy after the end of the
 * process that used it.
 *
 * Each process runs a copy of this program on a new tmpfs, uses memory on the slow node
 * until kmtierd has scanned some of it, and exits or calls exec. Then the copy can be
 * opened for writing, and the tmpfs can be unmounted. Both calls fail while somebody holds
 * a reference to mm_users, which keeps the file of the program open.
 *
 * lab: topology=dram-cxl timeout=240s
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burst_util.h"

#define PROCESSES	40
#define WORKERS		4
#define SIZE		(48 * MT_MB)
/* Looks that a process lives through at least */
#define LOOKS		3

/**
 * struct tally - what the workers have seen
 * @ended: processes
 * @text_busy: executables that could not be written to
 * @mount_busy: file systems that could not be unmounted
 * @failed: processes that did not do what they should
 */
struct tally {
	volatile int ended;
	volatile int text_busy;
	volatile int mount_busy;
	volatile int failed;
};

static struct tally *tally;

/* Uses memory until kmtierd has looked a few times. */
static void use_memory(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long until = mt_burst_value("looks") + LOOKS;

	if (!p)
		_exit(2);
	do
		mt_touch(p, SIZE, true);
	while (mt_burst_value("looks") < until);
}

/* The copy's main(): ends by exit, or by exec of the program at @next. */
static int hold(const char *next)
{
	use_memory();
	if (*next)
		execl(next, "burst_exit", "pause", NULL);
	_exit(*next ? 3 : 0);
}

static bool copy_self(const char *path)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	struct stat st;
	bool copied;

	copied = from >= 0 && to >= 0 && !fstat(from, &st) &&
		 sendfile(to, from, NULL, st.st_size) == st.st_size;
	close(from);
	close(to);
	return copied;
}

struct start {
	const char *path;
	const char *next;
	int out;
};

static void run_copy(void *arg)
{
	struct start *s = arg;

	dup2(s->out, STDOUT_FILENO);
	execl(s->path, "burst_exit", "hold", s->next, NULL);
	_exit(4);
}

/* Count the copy of a process that has ended if it is still in use. */
static bool count_busy(const char *path, const char *dir)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 && errno == ETXTBSY)
		__atomic_fetch_add(&tally->text_busy, 1, __ATOMIC_SEQ_CST);
	if (fd >= 0)
		close(fd);
	if (!umount2(dir, 0))
		return true;
	if (errno == EBUSY)
		__atomic_fetch_add(&tally->mount_busy, 1, __ATOMIC_SEQ_CST);
	return !umount2(dir, MNT_DETACH);
}

/* Run a copy on a new tmpfs; false if something else went wrong. */
static bool one_process(const char *dir, const char *next)
{
	char path[PATH_MAX], c;
	struct start s = { .path = path, .next = next };
	int ends[2];
	pid_t pid;
	bool good;

	snprintf(path, sizeof(path), "%s/program", dir);
	if (mount("tmpfs", dir, "tmpfs", 0, NULL) || !copy_self(path) ||
	    pipe2(ends, O_CLOEXEC))
		return false;
	s.out = ends[1];
	pid = mt_spawn(run_copy, &s);
	close(ends[1]);
	/* The next program writes a byte when it runs. */
	good = *next ? read(ends[0], &c, 1) == 1 : !mt_reap(pid);
	good &= count_busy(path, dir);
	if (*next)
		good &= !mt_reap(pid);
	close(ends[0]);
	return good;
}

static void worker(void *arg)
{
	char dir[] = "/run/burst_exit.XXXXXX", self[PATH_MAX] = "";
	long exec = (long)arg;
	int i;

	if (!mkdtemp(dir) || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		_exit(1);
	for (i = 0; i < PROCESSES / WORKERS; i++) {
		if (!one_process(dir, exec ? self : ""))
			__atomic_fetch_add(&tally->failed, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&tally->ended, 1, __ATOMIC_SEQ_CST);
	}
	rmdir(dir);
}

static int nothing_is_busy(bool exec)
{
	pid_t pid[WORKERS];
	struct mt_snap snap;
	int i;

	tally = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(tally != MAP_FAILED, "mmap");
	mt_set("scan/delay_ms", 0);
	mt_snap(&snap);
	mt_on();
	for (i = 0; i < WORKERS; i++)
		pid[i] = mt_spawn(worker, (void *)(long)exec);
	for (i = 0; i < WORKERS; i++)
		MT_ASSERT(!mt_reap(pid[i]), "a worker could not begin");
	mt_off();
	mt_note("%d processes: %d times ETXTBSY, %d times EBUSY; %lld looks, %lld pages moved",
		tally->ended, tally->text_busy, tally->mount_busy,
		mt_since(&snap, "mtier_looks"), mt_since(&snap, "mtier_promoted_folios"));
	MT_ASSERT(tally->ended == PROCESSES && !tally->failed, "%d of %d processes failed",
		  tally->failed, tally->ended);
	MT_ASSERT(mt_since(&snap, "mtier_promoted_folios") > 0, "kmtierd has moved nothing");
	MT_ASSERT(!tally->text_busy && !tally->mount_busy, "kept after the end");
	return MT_PASS;
}

static int after_exit(void)
{
	return nothing_is_busy(false);
}

static int after_exec(void)
{
	return nothing_is_busy(true);
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		MT_CHECK("what a process kept busy is free after its exit", after_exit),
		MT_CHECK("and after its exec", after_exec),
	};

	if (argc > 2 && !strcmp(argv[1], "hold"))
		return hold(argv[2]);
	if (argc > 1 && !strcmp(argv[1], "pause"))
		return write(STDOUT_FILENO, "", 1) != 1;
	return mt_main(checks, ARRAY_LEN(checks));
}
