// SPDX-License-Identifier: GPL-2.0
/* Many processes with memory that they use rarely or never. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "idle_util.h"

/* Time for all processes to get their memory. */
#define READY_MS	60000

static void idle_process(void *arg)
{
	struct mt_idle *idle = arg;
	size_t size = idle->ranges * MT_HUGE;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	long i;

	if (p == MAP_FAILED)
		_exit(1);
	madvise(p, size, MADV_NOHUGEPAGE);
	mt_bind_to(mt_slow_node());
	for (i = 0; i < idle->ranges; i++)
		p[i * MT_HUGE] = 1;
	mt_bind_default();
	__atomic_fetch_add(idle->ready, 1, __ATOMIC_SEQ_CST);
	while (idle->every_ms) {
		for (i = 0; i < idle->ranges; i++)
			p[i * MT_HUGE]++;
		usleep(idle->every_ms * 1000);
	}
	for (;;)
		pause();
}

/**
 * mt_idle_start() - Start the processes, and wait until all have their memory.
 * @idle: @nr, @ranges and @every_ms are set
 *
 * Memory that the test gets before is shared with them.
 *
 * Return: 0, or -1 without memory or if not all were ready in time.
 */
int mt_idle_start(struct mt_idle *idle)
{
	int i;

	idle->ready = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	idle->pids = calloc(idle->nr, sizeof(*idle->pids));
	if (idle->ready == MAP_FAILED || !idle->pids)
		return -1;
	for (i = 0; i < idle->nr; i++)
		idle->pids[i] = mt_spawn(idle_process, idle);
	return MT_WAIT(*idle->ready == idle->nr, READY_MS) ? 0 : -1;
}

/**
 * mt_idle_stop() - Kill the processes.
 * @idle: from mt_idle_start()
 */
void mt_idle_stop(struct mt_idle *idle)
{
	int i;

	for (i = 0; i < idle->nr; i++)
		mt_kill(idle->pids[i]);
	free(idle->pids);
	munmap((void *)idle->ready, MT_PAGE);
}
