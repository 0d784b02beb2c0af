// SPDX-License-Identifier: GPL-2.0
/*
 * Files of /proc with lines of ours are read while the process exits or calls exec.
 *
 * The first checks stop the reader in the middle of numa_maps: a SCHED_FIFO thread takes its
 * CPU, and the kernel code that counts pages gives way at its next cond_resched(). The
 * process ends, is reaped, and RCU callbacks free its tasks; then the reader goes on.
 * Freed tasks, mms and states of ours are poisoned (slab_debug=P): to follow a pointer in
 * one of them is an oops.
 *
 * The last check reads all files again and again until the process is gone.
 *
 * The guest's time counts instructions. So the hog starts at the same point of the reader's
 * work on each host, however busy the host is.
 *
 * lab: topology=two-socket-cxl icount=2 timeout=240s
 * lab: append="slab_debug=P,task_struct,mm_struct,kmalloc-*"
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follow_util.h"

/* The mapping whose line takes the reader long: some milliseconds */
#define LONG_PAGES	32768L
/* That of processes that only come and go */
#define SHORT_PAGES	64L

/* Rounds in which the reader was stopped in time, and rounds at most */
#define CAUGHT		4
#define ROUNDS		40

#define RUN_MS		6000

/* How a process ends */
enum end {
	KILLED,		/* all threads at once */
	LEADER_FIRST,	/* the leader calls exit, then the rest is killed */
	EXEC,		/* a thread that is not the leader calls exec, and is killed */
	ENDS,
};

/**
 * struct scene - what the test, the process and its reader share
 * @end: how the process ends
 * @pages: pages that it has marked
 * @tid: its second thread; 0 until all is marked and both threads run
 * @failed: it could not begin
 * @begin_end: it is to begin its end
 * @reading: the reader is about to read
 * @done: the reader has come to the end of the file
 * @took_ns: time from the one to the other
 * @marked: pages that were listed as marked in what was read last
 * @hogging: the CPU of the reader is taken
 * @hog: it is to be
 */
struct scene {
	enum end end;
	long pages;
	volatile pid_t tid;
	volatile bool failed;
	volatile bool begin_end;
	volatile bool reading;
	volatile bool done;
	volatile long long took_ns;
	volatile long marked;
	volatile bool hogging;
	volatile bool hog;
};

static struct scene *s;
/* Closed by exec: a process that waits for its end knows that the new program runs. */
static int execs[2];
/* A byte each: the reader may begin, the hog may begin */
static int read_now[2], hog_now[2];

static bool make_scene(void)
{
	s = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return s != MAP_FAILED && !pipe(read_now) && !pipe(hog_now);
}

static bool take_byte(int *from)
{
	char c;

	return read(from[0], &c, 1) == 1;
}

static void give_byte(int *to)
{
	while (write(to[1], "", 1) != 1)
		;
}

/* ---- the process ---- */

/* For the thread that begins it; others sleep until they are killed. */
static void wait_for_end(enum end mine)
{
	while (s->end != mine)
		pause();
	while (!s->begin_end)
		sched_yield();
}

static void *second_thread(void *arg)
{
	(void)arg;
	s->tid = syscall(SYS_gettid);
	wait_for_end(EXEC);
	execl("/proc/self/exe", "proc_exit", "pause", NULL);
	_exit(1);
}

/* Marks its memory, and runs with two threads until it ends. */
static void process(void *arg)
{
	pthread_t thread;
	char *p = NULL;

	(void)arg;
	close(execs[0]);
	fcntl(execs[1], F_SETFD, FD_CLOEXEC);
	if (!mt_run_on_cpu(0))
		p = mt_place(s->pages * MT_PAGE, 0);
	if (!p || mp_old_bind(p, s->pages * MT_PAGE, MPOL_BIND, 2, FO_MOVE) ||
	    pthread_create(&thread, NULL, second_thread, NULL)) {
		s->failed = true;
		_exit(1);
	}
	wait_for_end(LEADER_FIRST);
	syscall(SYS_exit, 0);
}

/* Its pid once all is marked; -1 if it could not begin */
static pid_t start_process(enum end end, long pages)
{
	pid_t pid;

	memset(s, 0, sizeof(*s));
	s->end = end;
	s->pages = pages;
	if (pipe(execs))
		return -1;
	pid = mt_spawn(process, NULL);
	close(execs[1]);
	if (MT_WAIT(s->tid || s->failed, AM_LONG_MS) && !s->failed)
		return pid;
	mt_kill(pid);
	close(execs[0]);
	return -1;
}

static char state_of(pid_t pid)
{
	char path[32], text[256], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (mt_read(path, text, sizeof(text)) <= 0)
		return 0;
	at = strrchr(text, ')');
	return at && at[1] ? at[2] : 0;
}

/* It has ended in its way, and is reaped; false if it ended in another one. */
static bool end_process(pid_t pid)
{
	bool began = true;
	char c;

	s->begin_end = true;
	if (s->end == LEADER_FIRST)
		began = MT_WAIT(state_of(pid) == 'Z', AM_LONG_MS);
	/* Nothing but exec, or an exit, closes the other end. */
	if (s->end == EXEC)
		began = !read(execs[0], &c, 1) && !mt_zombie(pid);
	mt_kill(pid);
	close(execs[0]);
	return began;
}

/* RCU callbacks of this CPU, the one on which the process was released, have run. */
static bool tasks_are_freed(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) &&
	       !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

/* ---- a reader that is stopped in numa_maps ---- */

static long marked_in(const char *text)
{
	const char *at = strstr(text, " marked=");

	return at ? atol(at + strlen(" marked=")) : 0;
}

/* One session of the kernel's: its buffer holds all lines. */
static void reader(void *path)
{
	static char text[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long long start;
	ssize_t n;

	if (fd < 0 || mt_run_on_cpu(1) || !take_byte(read_now))
		_exit(1);
	start = mt_now_ns();
	s->reading = true;
	n = read(fd, text, sizeof(text) - 1);
	s->done = true;
	s->took_ns = mt_now_ns() - start;
	text[n > 0 ? n : 0] = 0;
	s->marked = marked_in(text);
}

/* Takes the reader's CPU whenever it gets a byte, until it is to stop. */
static void hog(void *arg)
{
	struct sched_param param = { .sched_priority = 10 };

	(void)arg;
	if (mt_run_on_cpu(1) || sched_setscheduler(0, SCHED_FIFO, &param))
		_exit(1);
	while (take_byte(hog_now)) {
		s->hogging = true;
		while (s->hog)
			;
		s->hogging = false;
	}
}

static void spin_ns(long long ns)
{
	long long until = mt_now_ns() + ns;

	while (mt_now_ns() < until)
		;
}

static void start_hog(long long after_ns)
{
	give_byte(read_now);
	while (!s->reading)
		sched_yield();
	spin_ns(after_ns);
	s->hog = true;
	give_byte(hog_now);
	while (!s->hogging)
		sched_yield();
}

static void stop_hog(void)
{
	s->hog = false;
	while (s->hogging)
		sched_yield();
}

/* The files of a thread whose leader goes, or of a leader that is replaced */
static void path_of(char *path, size_t size, pid_t pid)
{
	if (s->end == EXEC)
		snprintf(path, size, "/proc/%d/numa_maps", pid);
	else
		snprintf(path, size, "/proc/%d/task/%d/numa_maps", pid, s->tid);
}

/* What a reader takes that nobody disturbs */
static long long whole_ns(enum end end)
{
	pid_t pid = start_process(end, LONG_PAGES), reads;
	char path[64];

	if (pid < 0)
		return -1;
	path_of(path, sizeof(path), pid);
	reads = mt_spawn(reader, path);
	give_byte(read_now);
	mt_reap(reads);
	return end_process(pid) && s->marked == LONG_PAGES ? s->took_ns : -1;
}

enum round {
	FAILED,
	TOO_EARLY,	/* the reader had not begun when the process ended */
	TOO_LATE,	/* it was through */
	IN_TIME,	/* the process was gone while its line was printed */
};

static enum round one_round(enum end end, long long after_ns)
{
	pid_t pid = start_process(end, LONG_PAGES), reads;
	bool late, ended;
	char path[64];

	if (pid < 0)
		return FAILED;
	path_of(path, sizeof(path), pid);
	reads = mt_spawn(reader, path);
	start_hog(after_ns);
	ended = end_process(pid) && tasks_are_freed();
	late = s->done;
	stop_hog();
	if (mt_reap(reads) || !ended)
		return FAILED;
	if (late)
		return TOO_LATE;
	if (!s->marked)
		return TOO_EARLY;
	return s->marked == LONG_PAGES ? IN_TIME : FAILED;
}

static int stopped(enum end end)
{
	int caught = 0, rounds = 0;
	long long whole, most;
	enum round round;
	pid_t hogs;

	MT_ASSERT(make_scene(), "no pipe");
	MT_ASSERT(!mt_run_on_cpu(0), "no CPU 0");
	whole = whole_ns(end);
	most = whole;
	MT_ASSERT(whole > 0, "nothing is listed as marked");
	hogs = mt_spawn(hog, NULL);
	for (; caught < CAUGHT && rounds < ROUNDS; rounds++) {
		/* From a quarter of the way to three quarters */
		round = one_round(end, most * (rounds % 5 + 2) / 8);
		MT_ASSERT(round != FAILED, "round %d: %ld of %ld pages are listed",
			  rounds, s->marked, LONG_PAGES);
		caught += round == IN_TIME;
		/* The end of a process also takes time: adapt the start of the hog. */
		if (round == TOO_LATE)
			most = most * 2 / 3;
		if (round == TOO_EARLY)
			most = most * 3 / 2;
	}
	mt_kill(hogs);
	mt_note("a line takes %lld us; the process was gone in it in %d of %d rounds",
		whole / 1000, caught, rounds);
	MT_ASSERT(caught == CAUGHT, "in time too seldom");
	return MT_PASS;
}

static int killed(void)
{
	return stopped(KILLED);
}

static int leader_first(void)
{
	return stopped(LEADER_FIRST);
}

static int execs_and_is_killed(void)
{
	return stopped(EXEC);
}

/* ---- all files, again and again ---- */

static const char * const files[] = { "numa_maps", "status", "sched" };

/* Two of each: of the leader, and of the other thread */
#define FILES	(2 * ARRAY_LEN(files))

/* What of ours they hold */
static const char * const keys[] = {
	" marked=", " marked_s=", "MtierScanScale:", "remote_debt_ns",
	"remote_charged_ns", "numa_scan_remote_ns",
};

/**
 * struct tally - what a reader of all files has seen
 * @reads: reads that have given something
 * @gone: files that had given something, until their task was gone
 * @seen: reads with each of the keys
 */
struct tally {
	volatile long reads;
	volatile long gone;
	volatile long seen[ARRAY_LEN(keys)];
};

static struct tally *tally;

static bool read_one(int fd)
{
	static char text[65536];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	size_t i;

	if (n <= 0)
		return false;
	text[n] = 0;
	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (strstr(text, keys[i]))
			tally->seen[i]++;
	tally->reads++;
	return true;
}

static bool open_all(pid_t pid, int *fds)
{
	char path[64];
	size_t i;

	for (i = 0; i < FILES; i++) {
		if (i % 2)
			snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, s->tid,
				 files[i / 2]);
		else
			snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i / 2]);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (fds[i] < 0)
			return false;
	}
	return true;
}

/* Reads until all of them are gone. */
static void reader_of_all(void *arg)
{
	pid_t pid = *(pid_t *)arg;
	size_t i, left = FILES;
	int fds[FILES];

	if (mt_run_on_cpu(1) || !open_all(pid, fds))
		_exit(1);
	while (left)
		for (i = 0; i < FILES; i++) {
			if (fds[i] < 0 || read_one(fds[i]))
				continue;
			close(fds[i]);
			fds[i] = -1;
			tally->gone++;
			left--;
		}
}

static int all_files(void)
{
	long long until = mt_now_ms() + (long long)RUN_MS * terrace_stretch();
	unsigned int i, n = 0;

	MT_ASSERT(make_scene(), "no pipe");
	tally = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(tally != MAP_FAILED, "mmap");
	MT_ASSERT(!mt_run_on_cpu(0), "no CPU 0");
	for (; mt_now_ms() < until || n < 2 * ENDS; n++) {
		pid_t pid = start_process(n % ENDS, SHORT_PAGES), reads;
		long enough = tally->reads + FILES + n % 11;

		MT_ASSERT(pid > 0, "nothing is marked");
		reads = mt_spawn(reader_of_all, &pid);
		MT_ASSERT(MT_WAIT(tally->reads >= enough, AM_LONG_MS), "nothing is read");
		MT_ASSERT(end_process(pid), "it has ended in another way");
		MT_ASSERT(!mt_reap(reads), "a reader could not begin");
	}
	mt_note("%u processes; %ld reads, %ld until the task was gone", n, tally->reads,
		tally->gone);
	for (i = 0; i < ARRAY_LEN(keys); i++)
		MT_ASSERT(tally->seen[i] > 0, "no line has \"%s\"", keys[i]);
	MT_ASSERT(tally->gone == (long)(n * FILES), "%ld of %zu files", tally->gone,
		  n * FILES);
	return MT_PASS;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a process is killed while numa_maps is printed", killed),
		MT_CHECK("its leader has exited before", leader_first),
		MT_CHECK("another thread than the leader calls exec", execs_and_is_killed),
		MT_CHECK("all files are read until their tasks are gone", all_files),
	};

	if (argc > 1 && !strcmp(argv[1], "pause")) {
		fo_hold(NULL);
		return 0;
	}
	return fo_main(checks, ARRAY_LEN(checks));
}
