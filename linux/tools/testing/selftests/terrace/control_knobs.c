// SPDX-License-Identifier: GPL-2.0
/*
 * Control: every file of /sys/kernel/mm/mtier has the default it is documented
 * with, takes what is in its range, refuses everything else and then stays as
 * it was.
 *
 * lab: topology=dram-cxl timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mtier_util.h"

static const char * const read_only[] = {
	"state", "mms", "place/why", "place/tau_us", "place/share_ppm",
	"place/margin_ppm", "place/trust_percent", "place/gain_us",
	"place/cost_us", "place/taken", "place/promoted", "place/demoted",
};

static const char * const node_files[] = {
	"target", "promoted", "dropped", "demoted",
};

static const char * const folders[] = { "scan", "promote", "place" };

/* Nonsense for a number: -EINVAL */
static const char * const nonsense[] = {
	"", "\n", " ", "x", "1x", "-1", "0x10", "1 2", "1.5", "1,2", "on", "--",
	"+-1", "\x01", "1\n\n",
};

/* Too large for any number: -ERANGE */
static const char * const huge[] = {
	"4294967296", "18446744073709551616", "99999999999999999999999",
};

/* Write @text, expect @want, and nothing to have changed. */
static int refused(const char *file, const char *text, int want)
{
	char before[64], after[64];
	int ret;

	mt_read(file, before, sizeof(before));
	ret = mt_write(file, text);
	mt_read(file, after, sizeof(after));
	MT_ASSERT(ret == want, "'%s' > %s: got %d (%s), want %d", text, file,
		  ret, ret < 0 ? strerror(-ret) : "taken", want);
	MT_ASSERT(!strcmp(before, after), "'%s' > %s: it was %s and is now %s",
		  text, file, before, after);
	return MT_PASS;
}

static int defaults(void)
{
	char now[64];
	size_t i;

	for (i = 0; i < mt_nr_knobs; i++) {
		mt_read(mt_knobs[i].file, now, sizeof(now));
		MT_ASSERT(!strcmp(now, mt_knobs[i].initial),
			  "%s is %s, not %s", mt_knobs[i].file, now,
			  mt_knobs[i].initial);
	}
	MT_ASSERT(mt_reads("enabled", "0"), "it is on");
	return MT_PASS;
}

static int both_ends(const struct mt_knob *k)
{
	char text[32];

	mt_set(k->file, k->max);
	MT_ASSERT(mt_read_ll(k->file) == k->max, "%s: lost", k->file);
	snprintf(text, sizeof(text), "%lld", k->max + 1);
	if (refused(k->file, text, -ERANGE))
		return MT_FAIL;
	mt_set(k->file, k->min);
	MT_ASSERT(mt_read_ll(k->file) == k->min, "%s: lost", k->file);
	snprintf(text, sizeof(text), "%lld", k->min - 1);
	return k->min ? refused(k->file, text, -ERANGE) : MT_PASS;
}

static int bounds(void)
{
	size_t i;

	for (i = 0; i < mt_nr_knobs; i++)
		if (mt_knobs[i].max && both_ends(&mt_knobs[i]))
			return MT_FAIL;
	return MT_PASS;
}

static int bad_numbers(void)
{
	size_t i, j;

	for (i = 0; i < mt_nr_knobs; i++) {
		if (!mt_knobs[i].max)
			continue;
		for (j = 0; j < ARRAY_LEN(nonsense); j++)
			if (*nonsense[j] &&
			    refused(mt_knobs[i].file, nonsense[j], -EINVAL))
				return MT_FAIL;
		for (j = 0; j < ARRAY_LEN(huge); j++)
			if (refused(mt_knobs[i].file, huge[j], -ERANGE))
				return MT_FAIL;
	}
	for (j = 0; j < ARRAY_LEN(nonsense); j++)
		if (*nonsense[j] && refused("enabled", nonsense[j], -EINVAL))
			return MT_FAIL;
	if (refused("enabled", "2", -ERANGE) ||
	    refused("enabled", "4294967296", -ERANGE))
		return MT_FAIL;
	return MT_PASS;
}

static int bad_words(void)
{
	static const char * const targets[] = {
		"-1", "x", "autoo", "aut", "0-1", "0,1", "AUTO", "0x0", " ",
	};
	static const char * const words[] = {
		"1", "0", "whol", "wholee", "Whole", "split whole", " ",
	};
	char text[16];
	size_t i;

	for (i = 0; i < ARRAY_LEN(targets); i++)
		if (refused("promote/target_node", targets[i], -EINVAL))
			return MT_FAIL;
	for (i = 0; i < ARRAY_LEN(words); i++)
		if (refused("promote/thp", words[i], -EINVAL))
			return MT_FAIL;
	/* Not there; and there, but slow. */
	if (refused("promote/target_node", "63", -ERANGE) ||
	    refused("promote/target_node", "1024", -ERANGE) ||
	    refused("promote/target_node", "4294967295", -ERANGE) ||
	    refused("promote/target_node", "2147483648", -ERANGE))
		return MT_FAIL;
	snprintf(text, sizeof(text), "%d", mt_slow_node());
	if (refused("promote/target_node", text, -ERANGE))
		return MT_FAIL;

	mt_set("promote/target_node", mt_fast_node());
	MT_ASSERT(mt_read_ll("promote/target_node") == mt_fast_node(), "lost");
	MT_ASSERT(!mt_write("promote/target_node", "auto\n"), "auto refused");
	MT_ASSERT(!mt_write("promote/thp", "split"), "split refused");
	MT_ASSERT(mt_reads("promote/thp", "split"), "split lost");
	MT_ASSERT(!mt_write("promote/thp", "whole\n"), "whole refused");
	return MT_PASS;
}

static int no_write(const char *file)
{
	char path[128];
	struct stat st;
	int ret;

	snprintf(path, sizeof(path), MT_DIR "%s", file);
	MT_ASSERT(!stat(path, &st), "%s is not there", file);
	MT_ASSERT(!(st.st_mode & 0222), "%s is writable (%o)", file,
		  st.st_mode & 0777);
	ret = mt_write(file, "1");
	MT_ASSERT(ret == -EIO || ret == -EACCES || ret == -EPERM,
		  "write to %s: %d", file, ret);
	return MT_PASS;
}

static int readers_only(void)
{
	char file[64], text[256];
	size_t i;

	for (i = 0; i < ARRAY_LEN(read_only); i++) {
		if (no_write(read_only[i]))
			return MT_FAIL;
		MT_ASSERT(mt_read(read_only[i], text, sizeof(text)) > 0,
			  "%s is empty", read_only[i]);
	}
	mt_on();
	for (i = 0; i < ARRAY_LEN(node_files); i++) {
		snprintf(file, sizeof(file), "node%d/%s", mt_slow_node(),
			 node_files[i]);
		if (no_write(file))
			return MT_FAIL;
		MT_ASSERT(mt_read(file, text, sizeof(text)) > 0, "%s is empty",
			  file);
	}
	return MT_PASS;
}

static int not_for_users(void)
{
	char path[128];
	struct stat st;
	size_t i;

	for (i = 0; i <= mt_nr_knobs; i++) {
		const char *file = i < mt_nr_knobs ? mt_knobs[i].file :
			"enabled";

		snprintf(path, sizeof(path), MT_DIR "%s", file);
		MT_ASSERT(!stat(path, &st) && (st.st_mode & 0777) == 0644 &&
			  !st.st_uid, "%s: mode %o", file, st.st_mode & 0777);
	}
	return MT_PASS;
}

static bool in(const char *name, const char * const *names, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Is there a test for a file, whose name is that below MT_DIR? */
static bool has_test(const char *name)
{
	size_t i;

	for (i = 0; i < mt_nr_knobs; i++)
		if (!strcmp(name, mt_knobs[i].file))
			return true;
	return !strcmp(name, "enabled") ||
	       in(name, read_only, ARRAY_LEN(read_only));
}

/* Files and folders in one of ours that we do not know of */
static int unknown(const char *dir)
{
	int files = 0, bad = 0;
	struct dirent *e;
	char path[300];
	DIR *d;

	snprintf(path, sizeof(path), MT_DIR "%s", dir);
	d = opendir(path);
	MT_ASSERT(d, "no folder %s", path);
	while ((e = readdir(d))) {
		char name[300];
		bool known;

		if (*e->d_name == '.')
			continue;
		snprintf(name, sizeof(name), "%s%s%s", dir, *dir ? "/" : "",
			 e->d_name);
		if (e->d_type == DT_DIR)
			known = in(name, folders, ARRAY_LEN(folders));
		else
			known = has_test(name);
		files += e->d_type != DT_DIR;
		if (!known)
			mt_note("no test knows of %s", name);
		bad += !known;
	}
	closedir(d);
	MT_ASSERT(files, "no files in %s", path);
	return bad;
}

/* Those that are to be there are read by other checks. While it is off no nodes are. */
static int all_known(void)
{
	int bad = unknown("");
	size_t i;

	for (i = 0; i < ARRAY_LEN(folders); i++)
		bad += unknown(folders[i]);
	return bad ? MT_FAIL : MT_PASS;
}

/* The same of a folder of a node, which is there while it is on */
static int node_known(void)
{
	struct dirent *e;
	char path[96];
	size_t n = 0;
	DIR *d;

	mt_on();
	snprintf(path, sizeof(path), MT_DIR "node%d", mt_slow_node());
	d = opendir(path);
	MT_ASSERT(d, "no %s", path);
	while ((e = readdir(d))) {
		if (*e->d_name == '.')
			continue;
		MT_ASSERT(in(e->d_name, node_files, ARRAY_LEN(node_files)),
			  "no test knows of %s/%s", path, e->d_name);
		n++;
	}
	closedir(d);
	MT_ASSERT(n == ARRAY_LEN(node_files), "%zu files in %s", n, path);
	return MT_PASS;
}

/* A knob can be changed while the engine uses it, as far as at any time. */
static int live(void)
{
	size_t i;

	mt_fast();
	mt_on();
	if (bounds())
		return MT_FAIL;
	mt_knobs_default();
	for (i = 0; i < mt_nr_knobs; i++) {
		const struct mt_knob *k = &mt_knobs[i];

		MT_ASSERT(mt_reads(k->file, k->initial),
			  "%s did not go back to %s", k->file, k->initial);
	}
	if (bad_numbers() || bad_words())
		return MT_FAIL;
	MT_ASSERT(mt_reads("enabled", "1"), "it went off");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("C1 C6 knobs have their documented defaults, engine off", defaults),
		MT_CHECK("C1 both ends of every range are taken, one beyond is ERANGE", bounds),
		MT_CHECK("C1 nonsense for a number is EINVAL, overflow ERANGE", bad_numbers),
		MT_CHECK("C1 T6 nonsense for a word is EINVAL, a wrong node ERANGE",
			 bad_words),
		MT_CHECK("C1 what reports cannot be written", readers_only),
		MT_CHECK("C1 knobs are root's to write and everybody's to read", not_for_users),
		MT_CHECK("C1 every file has a test", all_known),
		MT_CHECK("C1 so has every file of a node", node_known),
		MT_CHECK("C1 all of it also while the engine runs", live),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
