// SPDX-License-Identifier: GPL-2.0
/*
 * buildlike: what a parallel build does to memory management.  Jobs start short-lived children, half of
 * them with exec; a child maps parts of a large source file privately and reads them, changes some
 * of its private pages, fills fresh anonymous memory, writes an object file and ends.  The job then maps
 * the object, checks and deletes it.
 *
 * The arena is the source file, mapped shared in this process: its page cache is what can be
 * promoted.  A child reads its own slice of --slice bytes and --headers pieces of 16K from the first eighth
 * of the file, which all children read, as if they were header files.
 *
 * Checks: the digest in each object is the one that follows from the seed; objects hold what was written; no
 * private change comes through to the file; no child fails.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "wl.h"

#define PAGE_WORDS	(WL_PAGE / 8)
#define HEADER_PAGES	4u
#define OBJECT_WORDS	2048u
#define DIRTY_EVERY	4u	/* of a slice's pages a child writes to one in so many */
#define COPY_PATH	640u

/* All that a child has to know; in exec's argument as hexadecimal numbers. */
struct unit {
	uint64_t number, seed, size, slice, headers, heap, unmarked, copies;
};

static uint64_t slice_size = 256u << 10, headers = 16, heap_size = 512u << 10;
static const char *folder;
static unsigned int on_disk, copies;
static char place[512], source[600];
static uint64_t forks, execs, failed, bad_objects, spoil = UINT64_MAX;
static pid_t owner;

/* ---- contents ---- */

static uint64_t first_word(uint64_t seed, uint64_t page)
{
	return wl_mix(page + 1 + seed * WL_GOLDEN);
}

/* The sum of a page's words, as they follow from the seed. */
static uint64_t sum_of_page(uint64_t seed, uint64_t page)
{
	return PAGE_WORDS * first_word(seed, page) + WL_GOLDEN * (PAGE_WORDS * (PAGE_WORDS - 1) / 2);
}

static uint64_t nr_slices(const struct unit *u)
{
	return u->size / u->slice;
}

/* Where header @i of a unit begins. */
static uint64_t header_page(const struct unit *u, uint64_t i)
{
	uint64_t random = wl_mix(wl_mix(u->seed + u->number * WL_GOLDEN) + i), pages = u->size / WL_PAGE / 8;

	return wl_below(random, pages - HEADER_PAGES + 1);
}

/* What the child must find. */
static uint64_t expected_digest(const struct unit *u)
{
	uint64_t digest = u->number, page = u->number % nr_slices(u) * (u->slice / WL_PAGE);

	for (uint64_t i = 0; i < u->slice / WL_PAGE; i++)
		digest = wl_mix(digest + sum_of_page(u->seed, page + i));
	for (uint64_t h = 0; h < u->headers; h++)
		for (uint64_t i = 0; i < HEADER_PAGES; i++)
			digest = wl_mix(digest + sum_of_page(u->seed, header_page(u, h) + i));
	return digest;
}

/* ---- the child ---- */

static uint64_t digest_pages(const uint64_t *word, uint64_t pages, uint64_t digest)
{
	for (; pages; pages--, word += PAGE_WORDS) {
		uint64_t sum = 0;

		for (unsigned int i = 0; i < PAGE_WORDS; i++)
			sum += word[i];
		digest = wl_mix(digest + sum);
	}
	return digest;
}

/*
 * The path of the source's copy on @node, "source.0012"; 0 ends it.  Done by hand: a child that was forked
 * beside threads may not print.
 */
static void path_of_copy(const char *path, unsigned int node, char copy[COPY_PATH])
{
	size_t length = strlen(path);

	memcpy(copy, path, length);
	copy[length] = '.';
	copy[length + 5] = 0;
	for (unsigned int i = 4; i; i--, node /= 10)
		copy[length + i] = (char)('0' + node % 10);
}

/* Opens the source, or its copy on the node where the child is; a node without memory has none. */
static int open_source(const struct unit *u, const char *path)
{
	char copy[COPY_PATH];
	int fd = -1;

	if (u->copies) {
		path_of_copy(path, wl_node_here(), copy);
		fd = open(copy, O_RDONLY | O_CLOEXEC);
	}
	return fd < 0 ? open(path, O_RDONLY | O_CLOEXEC) : fd;
}

static uint64_t *map_part(int fd, uint64_t offset, uint64_t bytes)
{
	uint64_t *part = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, (off_t)offset);

	if (part == MAP_FAILED)
		_exit(10);
	return part;
}

/* Reads slice and headers; what it changes is its own. */
static uint64_t read_sources(const struct unit *u, const char *path)
{
	int fd = open_source(u, path);
	uint64_t digest = u->number, *part, pages = u->slice / WL_PAGE;

	if (fd < 0)
		_exit(11);
	part = map_part(fd, u->number % nr_slices(u) * u->slice, u->slice);
	digest = digest_pages(part, pages, digest);
	for (uint64_t i = 0; i < pages; i += DIRTY_EVERY)
		part[i * PAGE_WORDS + u->number % PAGE_WORDS] = u->number;
	munmap(part, u->slice);
	for (uint64_t h = 0; h < u->headers; h++) {
		part = map_part(fd, header_page(u, h) * WL_PAGE, HEADER_PAGES * WL_PAGE);
		digest = digest_pages(part, HEADER_PAGES, digest);
		munmap(part, HEADER_PAGES * WL_PAGE);
	}
	close(fd);
	return digest;
}

/* Fresh memory, filled and read again: what a compiler's own data would be. */
static void use_heap(const struct unit *u, uint64_t digest)
{
	uint64_t words = u->heap / 8, *heap, sum = 0;

	heap = mmap(NULL, u->heap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (heap == MAP_FAILED)
		_exit(12);
	for (uint64_t i = 0; i < words; i += 8)
		heap[i] = digest + i;
	for (uint64_t i = 0; i < words; i += 8)
		sum += heap[i] - i - digest;
	if (sum)
		_exit(13);
	munmap(heap, u->heap);
}

static void write_object(uint64_t digest, const char *path)
{
	static uint64_t object[OBJECT_WORDS];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	for (unsigned int i = 0; i < OBJECT_WORDS; i++)
		object[i] = wl_mix(digest + i);
	if (fd < 0 || write(fd, object, sizeof(object)) != (ssize_t)sizeof(object) || close(fd))
		_exit(14);
}

/* The life of a child; uses nothing that a fork of a program with threads may not. */
static void __attribute__((noreturn)) child(const struct unit *u, const char *from, const char *object)
{
	uint64_t digest;

	if (!u->unmarked)
		TG_MARK(TG_MARK_TASK, WL_KIND_WORKER);
	digest = read_sources(u, from);
	use_heap(u, digest);
	write_object(digest, object);
	_exit(0);
}

/* buildlike --child NUMBERS SOURCE OBJECT: what exec starts. */
static void run_as_child(char **argv)
{
	struct unit u;
	unsigned long long n[8];

	if (sscanf(argv[2], "%llx,%llx,%llx,%llx,%llx,%llx,%llx,%llx", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6],
		   &n[7]) != 8)
		_exit(15);
	u = (struct unit){ n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7] };
	child(&u, argv[3], argv[4]);
}

/* ---- the jobs ---- */

static int start_child(const struct unit *u, const char *object)
{
	char numbers[180];
	char *words[] = { "buildlike", "--child", numbers, source, (char *)object, NULL };
	bool does_exec = u->number & 1;
	int status;
	pid_t pid;

	snprintf(numbers, sizeof(numbers), "%llx,%llx,%llx,%llx,%llx,%llx,%llx,%llx", (unsigned long long)u->number,
		 (unsigned long long)u->seed, (unsigned long long)u->size, (unsigned long long)u->slice,
		 (unsigned long long)u->headers, (unsigned long long)u->heap, (unsigned long long)u->unmarked,
		 (unsigned long long)u->copies);
	pid = fork();
	if (!pid) {
		if (!does_exec)
			child(u, source, object);
		execv("/proc/self/exe", words);
		_exit(16);
	}
	if (pid < 0)
		return -1;
	__atomic_add_fetch(does_exec ? &execs : &forks, 1, __ATOMIC_RELAXED);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* Does the object hold what follows from the seed? */
static bool object_is_right(const struct unit *u, const char *path, uint64_t digest)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool right = true;
	uint64_t *object;

	if (fd < 0)
		return false;
	object = mmap(NULL, OBJECT_WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (object == MAP_FAILED)
		return false;
	if (u->number == spoil)
		object[OBJECT_WORDS / 2] ^= 1;
	for (unsigned int i = 0; i < OBJECT_WORDS; i++)
		right &= object[i] == wl_mix(digest + i);
	munmap(object, OBJECT_WORDS * 8);
	return right;
}

static void work(struct wl_worker *w)
{
	struct unit u = { 0, wl.seed, wl.size, slice_size, headers, heap_size, wl.as_burst, copies };
	uint64_t digest;
	char object[600];

	for (; w->next < w->last && !__atomic_load_n(&wl_stop, __ATOMIC_RELAXED); w->next++, w->ops++) {
		u.number = w->next;
		snprintf(object, sizeof(object), "%s/%llx.o", place, (unsigned long long)u.number);
		if (start_child(&u, object))
			__atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
		digest = expected_digest(&u);
		if (!object_is_right(&u, object, digest))
			__atomic_add_fetch(&bad_objects, 1, __ATOMIC_RELAXED);
		unlink(object);
		w->checksum += digest;
	}
}

/* ---- start and end ---- */

static void unlink_copies(void)
{
	char copy[COPY_PATH];

	for (unsigned int node = 0; node < TG_MAX_NODES; node++) {
		path_of_copy(source, node, copy);
		unlink(copy);
	}
}

static void clean_up(void)
{
	if (getpid() != owner)
		return;
	unlink(source);
	if (copies)
		unlink_copies();
	if (on_disk)
		umount2(place, MNT_DETACH);
	rmdir(place);
}

/* A file system that knows of dirty pages and writes them back: ext4 on a loop device, of a file without a name. */
static void mount_disk(void)
{
	char command[1700];

	snprintf(command, sizeof(command),
		 "truncate -s %lluM '%s.img' && mkfs.ext4 -q -O ^has_journal '%s.img' && mount -o loop '%s.img' '%s' && "
		 "rm '%s.img'", (unsigned long long)(2 * wl.size >> 20) + 16, place, place, place, place, place);
	if (system(command))
		tg_die(TG_EXIT_FAILED, "--on-disk: no ext4 on a loop device; it needs root and e2fsprogs");
}

/* The source again, in page cache of this node. */
static void make_copy(unsigned int node)
{
	char copy[COPY_PATH], *at;
	int fd;

	path_of_copy(source, node, copy);
	fd = open(copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)wl.size))
		tg_die(TG_EXIT_FAILED, "--copies: %s: %s", copy, strerror(errno));
	at = mmap(NULL, wl.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		tg_die(TG_EXIT_FAILED, "--copies: %s: mapping it: %s", copy, strerror(errno));
	memcpy(at, wl_arena, wl.size);
	munmap(at, wl.size);
	close(fd);
}

static void check(void)
{
	if (slice_size % WL_PAGE || wl.size % slice_size)
		tg_die(TG_EXIT_USAGE, "--slice: %llu is not a number of pages that divides --size",
		       (unsigned long long)slice_size);
	if (copies && on_disk)
		tg_die(TG_EXIT_USAGE, "--copies: not with --on-disk, where the node of a page is the file system's choice");
	if (wl.size / WL_PAGE / 8 < HEADER_PAGES)
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are too few; at least %u", (unsigned long long)wl.size,
		       8 * HEADER_PAGES * WL_PAGE);
}

/* The source file, in a folder of this run's own. */
static int make_file(void)
{
	const char *scratch = getenv("TERRACE_SCRATCH"), *parent = folder ? folder : scratch ? scratch : "/tmp";
	int fd;

	snprintf(place, sizeof(place), "%s/buildlike.XXXXXX", parent);
	if (!mkdtemp(place))
		tg_die(TG_EXIT_USAGE, "--dir: %s: %s", parent, strerror(errno));
	owner = getpid();
	snprintf(source, sizeof(source), "%s/source", place);
	atexit(clean_up);
	if (on_disk)
		mount_disk();
	fd = open(source, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)wl.size))
		tg_die(TG_EXIT_FAILED, "%s: %s", source, strerror(errno));
	return fd;
}

/*
 * A build's sources are not fresh, and between two compilers nobody maps them: pages that wait to be written
 * back, or that this process maps, would be none that migrate_on_fault moves.
 */
static void let_go(void)
{
	if (msync(wl_arena, wl.size, MS_SYNC) || madvise(wl_arena, wl.size, MADV_DONTNEED))
		tg_die(TG_EXIT_FAILED, "%s: writing it back: %s", source, strerror(errno));
}

static void prepare(void)
{
	for (uint64_t page = 0; page < wl_pages; page++) {
		uint64_t word = first_word(wl.seed, page), *at = (uint64_t *)wl_page(page);

		for (unsigned int i = 0; i < PAGE_WORDS; i++, word += WL_GOLDEN)
			at[i] = word;
	}
	if (on_disk)
		let_go();
	if (copies)
		wl_on_each_node(make_copy);
}

static uint64_t unit(void)
{
	return wl.size / slice_size;
}

static void verify(void)
{
	for (uint64_t page = 0; page < wl_pages; page++) {
		const uint64_t *word = (const uint64_t *)wl_page(page);
		uint64_t sum = 0;

		for (unsigned int i = 0; i < PAGE_WORDS; i++)
			sum += word[i];
		if (word[0] != first_word(wl.seed, page) || sum != sum_of_page(wl.seed, page))
			wl_wrong("page %llu of the source is not what was written there", (unsigned long long)page);
	}
	if (failed)
		wl_wrong("%llu children failed", (unsigned long long)failed);
	if (bad_objects)
		wl_wrong("%llu objects are wrong", (unsigned long long)bad_objects);
}

/* The first byte of every copy; the first child reads it. */
static void spoil_copy(unsigned int node)
{
	char copy[COPY_PATH], byte = (char)~wl_arena[0];
	int fd;

	path_of_copy(source, node, copy);
	fd = open(copy, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, &byte, 1, 0) != 1 || close(fd))
		tg_die(TG_EXIT_FAILED, "--sabotage: %s: %s", copy, strerror(errno));
}

static void sabotage(const char *kind)
{
	if (!strcmp(kind, "object"))
		spoil = 1;
	else if (!strcmp(kind, "child"))
		unlink(source);
	else if (!strcmp(kind, "copy"))
		wl_on_each_node(spoil_copy);
	else
		wl_arena[wl_below(wl_hash(99, 0), wl.size)] ^= 1;
}

static void report(void)
{
	printf("  \"forks\": %llu,\n  \"execs\": %llu,\n", (unsigned long long)forks, (unsigned long long)execs);
}

static const struct wl_option options[] = {
	{ "slice", WL_SIZE, &slice_size, WL_PAGE, 1u << 30, NULL, "source of one child's own", false },
	{ "headers", WL_NUMBER, &headers, 0, 4096, NULL, "pieces of 16K that it reads of what all read", false },
	{ "heap", WL_SIZE, &heap_size, WL_PAGE, 1u << 30, NULL, "anonymous memory that it fills", false },
	{ "on-disk", WL_FLAG, &on_disk, 0, 0, NULL, "the files are on ext4 on a loop device", false },
	{ "copies", WL_FLAG, &copies, 0, 0, NULL,
	  "a copy of the source on every node; a child reads the one where it starts", false },
	{ "dir", WL_TEXT, &folder, 0, 0, NULL, "where the files are; else $TERRACE_SCRATCH or /tmp", false },
	{ 0 },
};

static const struct wl_workload buildlike = {
	.name = "buildlike",
	.purpose = "Short-lived children that map sources and write objects; an operation is a child.",
	.options = options,
	.defaults = { .iterations = 1 },
	.check = check,
	.file = make_file,
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sabotage = sabotage,
	.verify = verify,
	.report = report,
};

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "--child"))
		run_as_child(argv);
	return wl_main(&buildlike, argc, argv);
}
