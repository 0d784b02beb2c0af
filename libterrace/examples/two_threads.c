// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Two threads with interleave weights of their own, 5:1 and 1:5: each fills one
 * large piece of memory and many small ones, and every mapping that results must
 * be spread in its thread's ratio.
 *
 *	two_threads [MEGABYTES]		256 if not given; 64 at least, else malloc()
 *					joins pieces of both threads in one mapping
 *
 * Exits with 0 if all is well, 1 if not, 3 on a kernel without the calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <terrace/policy.h>

#define PAGE	4096UL
#define ROUND	6

static size_t megabytes = 256;
/* What a compiler sees used it cannot leave out. */
static char *volatile last;

/*
 * Made before any thread has its policy: what malloc() touches for them would
 * lie by the policy that was inherited.
 */
static struct terrace_policy *policies[2];

static int make_policies(void)
{
	int ret = terrace_policy_parse(&policies[0], "0=5,1=1");

	return ret ? ret : terrace_policy_parse(&policies[1], "0=1,1=5");
}

/*
 * A mapping that never joins its neighbour, which may be the other thread's: the
 * policy is the thread's, and the kernel sees no difference between the two.
 */
static char *map_apart(size_t size)
{
	char *p = mmap(NULL, size + 2 * PAGE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + PAGE, size, PROT_READ | PROT_WRITE)) {
		perror("two_threads");
		exit(1);
	}
	return p + PAGE;
}

/* One piece, then the same in pages; nobody frees them. */
static void fill(void)
{
	size_t size = megabytes << 20, off;
	char *large = map_apart(size);

	memset(large, 1, size);
	last = large;
	for (off = 0; off < size; off += PAGE) {
		char *small = malloc(PAGE);

		small[0] = 1;
		last = small;
	}
}

static void *thread(void *ret)
{
	*(int *)ret = terrace_policy_apply_thread(policies[1], 0, NULL);
	fill();
	return NULL;
}

static unsigned long field(const char *line, const char *name)
{
	const char *found = strstr(line, name);

	return found ? strtoul(found + strlen(name), NULL, 10) : 0;
}

/*
 * The rarer node has a sixth, to within one page for each round that is not
 * whole: mappings grow at either end, and so may begin or end inside a round.
 */
static int check(const char *line, int *mostly)
{
	unsigned long n0 = field(line, " N0="), n1 = field(line, " N1=");
	unsigned long all = n0 + n1, less = n0 < n1 ? n0 : n1;

	if (all < 1000)
		return 0;
	printf("%.12s %8lu pages: %lu on node 0, %lu on node 1\n", line, all,
	       n0, n1);
	mostly[n0 < n1]++;
	return less * ROUND > all + ROUND || less * ROUND + ROUND < all;
}

int main(int argc, char **argv)
{
	int ret = 0, bad = 0, mostly[2] = { 0, 0 };
	char line[4096];
	pthread_t t;
	FILE *maps;

	if (argc > 1)
		megabytes = strtoul(argv[1], NULL, 10);
	ret = make_policies();
	if (!ret)
		ret = terrace_policy_apply_thread(policies[0], 0, NULL);
	if (ret) {
		fprintf(stderr, "two_threads: %s\n", strerror(-ret));
		return ret == -ENOSYS ? 3 : 1;
	}
	pthread_create(&t, NULL, thread, &ret);
	fill();
	pthread_join(t, NULL);

	maps = fopen("/proc/self/numa_maps", "re");
	while (maps && fgets(line, sizeof(line), maps))
		bad += check(line, mostly);
	if (maps)
		fclose(maps);
	if (ret || bad || !mostly[0] || !mostly[1]) {
		printf("not as expected: %d mappings\n", bad);
		return 1;
	}
	printf("all mappings have a sixth of their pages on the rarer node\n");
	return 0;
}
