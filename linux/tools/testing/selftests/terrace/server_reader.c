// SPDX-License-Identifier: GPL-2.0
/*
 * A mapper that can only read a file keeps no page of it on the slow node: a private
 * mapping, an executable one, one with a memory policy, or one without access rights.
 * Pages of a file in a private mapping are promoted, and so are private copies of them.
 *
 * The reader is another user, who has opened the file only for reading.
 *
 * Time counts instructions.
 *
 * lab: topology=dram-cxl icount=2 timeout=600s debug=no
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "burst_util.h"

#define SIZE		(16 * MT_MB)
#define PAGES		((long)(SIZE / MT_PAGE))
#define NOBODY		65534
/* Limit for 90 % of the hot pages. */
#define FOUND_MS	10000
#define READERS		2

/**
 * struct reader - a process that maps the file
 * @fd: the file, opened only for reading
 * @how: flags for mmap()
 * @prot: rights for mmap()
 * @bind_self: its thread is bound to the slow node
 * @bind_vma: its mapping is bound to the slow node
 * @hide: it removes the access rights of its mapping
 * @copies: it writes to each second page, if the mapping is private
 * @uses: it uses its mapping
 * @go: it can map the file
 * @ready: it has mapped all pages; negative: it failed
 * @pid: its process
 */
struct reader {
	int fd;
	int how;
	int prot;
	bool bind_self;
	bool bind_vma;
	bool hide;
	bool copies;
	volatile bool uses;
	volatile bool go;
	volatile int ready;
	pid_t pid;
};

/**
 * struct scene - a file with readers
 * @fd: the file
 * @cg: memory cgroup of the readers, if @cg.dir is not empty
 * @r: the readers
 * @nr: their number
 */
struct scene {
	int fd;
	struct mt_cgroup cg;
	struct reader *r;
	int nr;
};

/* ---- the readers ---- */

static bool reader_map(const struct reader *r, char **at)
{
	char *p = mmap(NULL, SIZE, r->prot, r->how, r->fd, 0);
	size_t off;

	*at = p;
	if (p == MAP_FAILED)
		return false;
	if (r->bind_vma && mt_mbind(p, SIZE, MPOL_BIND, 1UL << mt_slow_node()))
		return false;
	for (off = 0; off < SIZE; off += MT_PAGE) {
		(void)*(volatile char *)(p + off);
		if (r->copies && off & MT_PAGE)
			*(volatile size_t *)(p + off) = 7;
	}
	return !r->hide || !mprotect(p, SIZE, PROT_NONE);
}

static void reader_run(void *arg)
{
	struct reader *r = arg;
	char *p;

	if (!MT_WAIT(r->go, 60000) || setuid(NOBODY) ||
	    (r->bind_self && mt_bind_to(mt_slow_node())) || !reader_map(r, &p)) {
		r->ready = -1;
		_exit(1);
	}
	r->ready = 1;
	for (;;) {
		if (r->uses)
			mt_touch(p, SIZE, false);
		mt_nap(r->uses ? 1 : 100);
	}
}

/* Start readers that wait. They exist before the memory that they must not inherit. */
static bool scene_begin(struct scene *s, int fd, int nr, const struct reader *like)
{
	char path[64];
	int i;

	s->fd = fd;
	s->nr = nr;
	s->r = mmap(NULL, nr * sizeof(*s->r), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (i = 0; s->r != MAP_FAILED && i < nr; i++) {
		s->r[i] = *like;
		s->r[i].fd = open(path, O_RDONLY | O_CLOEXEC);
		if (s->r[i].fd < 0)
			return false;
		s->r[i].pid = mt_spawn(reader_run, &s->r[i]);
		if (*s->cg.dir && mt_cgroup_enter(&s->cg, s->r[i].pid))
			return false;
	}
	return s->r != MAP_FAILED;
}

static bool scene_read(struct scene *s)
{
	bool ok = true;
	int i;

	for (i = 0; i < s->nr; i++)
		s->r[i].go = true;
	for (i = 0; i < s->nr; i++)
		ok &= MT_WAIT(s->r[i].ready, 60000) && s->r[i].ready > 0;
	return ok;
}

static void scene_end(struct scene *s)
{
	int i;

	for (i = 0; i < s->nr; i++) {
		mt_kill(s->r[i].pid);
		close(s->r[i].fd);
	}
	munmap(s->r, s->nr * sizeof(*s->r));
	close(s->fd);
}

/* ---- the file ---- */

static int on_tmpfs(void)
{
	return memfd_create("reader", MFD_CLOEXEC);
}

static int on_ext4(void)
{
	const char *dir = mt_ext4();
	char path[256];
	int fd;

	if (!dir)
		return -1;
	snprintf(path, sizeof(path), "%s/reader", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	unlink(path);
	return fd;
}

/* Fill the file with pages of the slow node. */
static bool file_fill(int fd)
{
	char *p = mt_place_file(fd, SIZE, mt_slow_node(), PROT_READ);

	return p && !munmap(p, SIZE);
}

/* Check the contents: @copied says that the pages with odd numbers are copies. */
static bool same(const char *p, bool copied)
{
	size_t off;

	for (off = 0; off < SIZE; off += MT_PAGE)
		if (*(const size_t *)(p + off) !=
		    (copied && off & MT_PAGE ? off + 2 : off + 1))
			return false;
	return true;
}

/* Write to each second page of a private mapping. The copies are on the slow node. */
static void copy_half(char *p)
{
	size_t off;

	mt_bind_to(mt_slow_node());
	for (off = MT_PAGE; off < SIZE; off += 2 * MT_PAGE)
		*(size_t *)(p + off) = off + 2;
	mt_bind_default();
}

/* ---- what comes up ---- */

static int uses_and_comes_up(char *p, const char *what)
{
	struct mt_snap before;
	struct mt_toucher t;
	long long start;
	bool up;

	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()), "it is not on the slow node");
	mt_set("scan/delay_ms", 0);
	mt_touch_start(&t, p, SIZE);
	mt_snap(&before);
	start = mt_now_ms();
	mt_on();
	up = MT_WAIT(mt_pages_on(p, SIZE, mt_fast_node()) > PAGES * 9 / 10, FOUND_MS);
	mt_note("%s: %ld of %ld pages are fast after %lld ms", what,
		mt_pages_on(p, SIZE, mt_fast_node()), PAGES, mt_now_ms() - start);
	mt_touch_stop(&t);
	mt_off();
	if (!up)
		mt_note_since(&before);
	MT_ASSERT(up, "it stayed");
	return MT_PASS;
}

/**
 * struct user - the process that uses the file
 * @how: flags for mmap()
 * @first: it maps the file before the readers
 * @copies: it has private copies of each second page
 */
struct user {
	int how;
	bool first;
	bool copies;
};

static char *user_map(const struct user *u, int fd)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, u->how, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	mt_touch(p, SIZE, false);
	if (u->copies)
		copy_half(p);
	return p;
}

static int comes_up_in(struct scene *s, int fd, const struct user *u,
		       const struct reader *like, const char *what)
{
	char *p = NULL;
	int ret;

	MT_NEED(fd >= 0 && file_fill(fd), "no file on the slow node");
	MT_ASSERT(scene_begin(s, fd, READERS, like), "no readers");
	if (u->first)
		p = user_map(u, fd);
	MT_ASSERT(scene_read(s), "the readers do not read");
	if (!u->first)
		p = user_map(u, fd);
	MT_ASSERT(p, "mmap");
	ret = uses_and_comes_up(p, what);
	MT_ASSERT(same(p, u->copies), "other contents");
	munmap(p, SIZE);
	scene_end(s);
	return ret;
}

static int comes_up(int fd, const struct user *u, const struct reader *like,
		    const char *what)
{
	struct scene s = { };

	return comes_up_in(&s, fd, u, like, what);
}

static const struct reader private_reader = { .how = MAP_PRIVATE, .prot = PROT_READ };
static const struct user shared_first = { .how = MAP_SHARED, .first = true };
static const struct user shared_last = { .how = MAP_SHARED };
static const struct user private_user = { .how = MAP_PRIVATE };

static int beside_private_tmpfs(void)
{
	return comes_up(on_tmpfs(), &shared_last, &private_reader, "readers first") ?:
	       comes_up(on_tmpfs(), &shared_first, &private_reader, "readers last");
}

static int beside_private_ext4(void)
{
	return comes_up(on_ext4(), &shared_last, &private_reader, "readers first") ?:
	       comes_up(on_ext4(), &shared_first, &private_reader, "readers last");
}

static int beside_shared(void)
{
	const struct reader r = { .how = MAP_SHARED, .prot = PROT_READ, .bind_self = true };

	return comes_up(on_tmpfs(), &shared_last, &r, "tmpfs") ?:
	       comes_up(on_ext4(), &shared_last, &r, "ext4");
}

static int beside_executable(void)
{
	const struct reader r = { .how = MAP_PRIVATE, .prot = PROT_READ | PROT_EXEC };

	return comes_up(on_ext4(), &shared_last, &r, "private");
}

/*
 * Only an executable reader uses the file, so its mapping is in the sample. The idle
 * mapping of this process makes data of the pages.
 */
static int used_by_executable(void)
{
	const struct reader r = { .how = MAP_SHARED, .prot = PROT_READ | PROT_EXEC };
	struct scene s = { };
	int fd = on_ext4();
	long long bursts;
	char *p;
	int ret;

	MT_NEED(fd >= 0 && file_fill(fd), "no file on the slow node");
	MT_ASSERT(scene_begin(&s, fd, 1, &r) && scene_read(&s), "no reader");
	p = user_map(&shared_last, fd);
	MT_ASSERT(p, "mmap");
	/* After some sweeps both mappings are idle. */
	mt_set("scan/delay_ms", 0);
	mt_on();
	bursts = mt_burst_value("sweeps");
	MT_ASSERT(MT_WAIT(mt_burst_value("sweeps") >= bursts + 4, FOUND_MS), "no sweeps");
	s.r[0].uses = true;
	ret = MT_WAIT(mt_pages_on(p, SIZE, mt_fast_node()) > PAGES * 9 / 10, FOUND_MS) ?
	      MT_PASS : MT_FAIL;
	mt_off();
	munmap(p, SIZE);
	scene_end(&s);
	MT_ASSERT(ret == MT_PASS, "it stayed");
	return ret;
}

static int beside_bound(void)
{
	struct reader r = private_reader;

	r.bind_self = true;
	r.bind_vma = true;
	r.uses = true;
	return comes_up(on_ext4(), &shared_last, &r, "ext4");
}

static int beside_hidden(void)
{
	struct reader r = private_reader;

	r.hide = true;
	return comes_up(on_tmpfs(), &shared_last, &r, "tmpfs") ?:
	       comes_up(on_ext4(), &shared_last, &r, "ext4");
}

static int beside_another_cgroup(void)
{
	struct scene s = { };
	int ret;

	MT_NEED(!mt_cgroup_make(&s.cg, "reader", "+memory"), "no memory cgroup");
	ret = comes_up_in(&s, on_ext4(), &shared_last, &private_reader, "ext4");
	mt_cgroup_remove(&s.cg);
	return ret;
}

/* The readers are in the sample as well, and have copies there. */
static int beside_copies(void)
{
	const struct reader r = {
		.how = MAP_PRIVATE, .prot = PROT_READ | PROT_WRITE, .copies = true,
		.uses = true,
	};

	return comes_up(on_tmpfs(), &shared_last, &r, "tmpfs") ?:
	       comes_up(on_ext4(), &shared_last, &r, "ext4");
}

static int private_pages(void)
{
	return comes_up(on_tmpfs(), &private_user, &private_reader, "tmpfs") ?:
	       comes_up(on_ext4(), &private_user, &private_reader, "ext4");
}

static int private_copies(void)
{
	const struct user u = { .how = MAP_PRIVATE, .copies = true };

	return comes_up(on_tmpfs(), &u, &private_reader, "tmpfs") ?:
	       comes_up(on_ext4(), &u, &private_reader, "ext4");
}

/* ---- what stays ---- */

/* The file stays while other memory of this process comes up, and some bursts after. */
static int stays(struct scene *s, int fd, const struct reader *like, int prot)
{
	char *canary, *p;
	long long bursts;
	long left;
	int ret;

	MT_NEED(fd >= 0 && file_fill(fd), "no file on the slow node");
	MT_ASSERT(scene_begin(s, fd, READERS, like), "no readers");
	canary = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(canary && scene_read(s), "no memory, or no readers");
	p = prot ? mmap(NULL, SIZE, prot, MAP_SHARED, fd, 0) : NULL;
	MT_ASSERT(p != MAP_FAILED, "mmap");
	if (p)
		mt_touch(p, SIZE, false);
	ret = uses_and_comes_up(canary, "other memory");
	mt_on();
	bursts = mt_burst_value("bursts");
	if (!ret && !MT_WAIT(mt_burst_value("bursts") >= bursts + 4, FOUND_MS))
		ret = MT_FAIL;
	mt_off();
	if (!p)
		p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	mt_touch(p, SIZE, false);
	left = PAGES - mt_pages_on(p, SIZE, mt_slow_node());
	munmap(p, SIZE);
	munmap(canary, SIZE);
	scene_end(s);
	MT_ASSERT(!left, "%ld pages left the slow node", left);
	return ret;
}

/* If all mappers forbid it, the pages stay. */
static int all_bound(void)
{
	struct reader r = private_reader;
	struct scene s = { };

	r.bind_self = true;
	r.uses = true;
	return stays(&s, on_ext4(), &r, 0);
}

/* If all mappers execute the pages, these are program text. */
static int text(void)
{
	const struct reader r = {
		.how = MAP_PRIVATE, .prot = PROT_READ | PROT_EXEC, .uses = true,
	};
	struct scene s = { };

	return stays(&s, on_ext4(), &r, PROT_READ | PROT_EXEC);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a file on tmpfs beside private readers", beside_private_tmpfs),
		MT_CHECK("a file on ext4 beside private readers", beside_private_ext4),
		MT_CHECK("beside bound readers with a shared mapping", beside_shared),
		MT_CHECK("beside readers with an executable mapping", beside_executable),
		MT_CHECK("used by a reader with an executable mapping", used_by_executable),
		MT_CHECK("beside readers with a policy for a private mapping", beside_bound),
		MT_CHECK("beside readers without access rights", beside_hidden),
		MT_CHECK("beside readers in another memory cgroup", beside_another_cgroup),
		MT_CHECK("beside readers with copies of each second page", beside_copies),
		MT_CHECK("pages of a file in a private mapping", private_pages),
		MT_CHECK("pages and copies in a private mapping", private_copies),
		MT_CHECK("a file stays if all of its mappers are bound", all_bound),
		MT_CHECK("text that all mappers execute stays", text),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
