// SPDX-License-Identifier: GPL-2.0
/*
 * The files the command in the small guest sees: the host's over 9p, with writable layers where programs write, and
 * the guest's own /proc, /sys and /dev in place of the host's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init.h"

#define NEW_ROOT "/newroot"
#define RUN_DIR NEW_ROOT "/run/terrace"

void make_dir(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		fail("mkdir %s: %s", path, strerror(errno));
}

static int try_mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)
{
	return mount(source, target, type, flags, data);
}

void must_mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)
{
	if (try_mount(source, target, type, flags, data))
		fail("mount %s (%s, %s): %s", target, type ? type : "move", data ? data : "", strerror(errno));
}

static int mount_overlay(const char *lower, const char *target, const char *store)
{
	char upper[128], work[128], data[512];

	make_dir(store);
	snprintf(upper, sizeof(upper), "%s/upper", store);
	snprintf(work, sizeof(work), "%s/work", store);
	make_dir(upper);
	make_dir(work);
	snprintf(data, sizeof(data), "lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work);
	return try_mount("terrace", target, "overlay", 0, data);
}

/* A folder that programs write to: what the host has there shows through where that can be done. */
static void mount_writable(const char *target, const char *store)
{
	if (access(target, F_OK))
		return;
	if (mount_overlay(target, target, store))
		must_mount("tmpfs", target, "tmpfs", 0, NULL);
	chmod(target, 01777);
}

static void mount_root(void)
{
	static const char options[] = "trans=virtio,version=9p2000.L,msize=512000,cache=loose";
	bool overlay = !strcmp(conf.root, "overlay");

	make_dir("/host");
	make_dir(NEW_ROOT);
	must_mount("terrace-root", overlay ? "/host" : NEW_ROOT, "9p", MS_RDONLY, options);
	if (overlay) {
		make_dir("/upper");
		must_mount("terrace-upper", "/upper", "tmpfs", 0, "mode=755");
		if (mount_overlay("/host", NEW_ROOT, "/upper/root"))
			fail("mount of the writable root: %s", strerror(errno));
	}
	must_mount("tmpfs", NEW_ROOT "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755");
	make_dir(RUN_DIR);
	if (!overlay) {
		mount_writable(NEW_ROOT "/tmp", RUN_DIR "/tmp");
		mount_writable(NEW_ROOT "/var/tmp", RUN_DIR "/var-tmp");
	}
}

static void mount_kernel_files(void)
{
	must_mount("proc", NEW_ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	must_mount("sysfs", NEW_ROOT "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	must_mount("devtmpfs", NEW_ROOT "/dev", "devtmpfs", MS_NOSUID, "mode=755");
	/* What a kernel may be built without is no reason to stop. */
	try_mount("cgroup2", NEW_ROOT "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	try_mount("debugfs", NEW_ROOT "/sys/kernel/debug", "debugfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	try_mount("tracefs", NEW_ROOT "/sys/kernel/tracing", "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	make_dir(NEW_ROOT "/dev/pts");
	make_dir(NEW_ROOT "/dev/shm");
	make_dir(NEW_ROOT "/dev/mqueue");
	make_dir(NEW_ROOT "/dev/hugepages");
	try_mount("devpts", NEW_ROOT "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=620,ptmxmode=666");
	try_mount("tmpfs", NEW_ROOT "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	try_mount("mqueue", NEW_ROOT "/dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	try_mount("hugetlbfs", NEW_ROOT "/dev/hugepages", "hugetlbfs", MS_NOSUID | MS_NODEV, NULL);
	if (symlink("/proc/self/fd", NEW_ROOT "/dev/fd") || symlink("/proc/self/fd/0", NEW_ROOT "/dev/stdin") ||
	    symlink("/proc/self/fd/1", NEW_ROOT "/dev/stdout") || symlink("/proc/self/fd/2", NEW_ROOT "/dev/stderr")) {
		if (errno != EEXIST)
			fail("links in /dev: %s", strerror(errno));
	}
}

static void enter_root(void)
{
	char data[96];

	make_dir(RUN_DIR "/scratch");
	snprintf(data, sizeof(data), "mode=1777,size=%s", conf.scratch);
	must_mount("terrace-scratch", RUN_DIR "/scratch", "tmpfs", 0, data);
	if (conf.out) {
		make_dir(NEW_ROOT OUT_DIR);
		snprintf(data, sizeof(data), "mode=755,size=%s,nr_inodes=64k", conf.out);
		must_mount("terrace-out", NEW_ROOT OUT_DIR, "tmpfs", MS_NOSUID | MS_NODEV, data);
	}
	umount2("/proc", MNT_DETACH);
	umount2("/sys", MNT_DETACH);
	umount2("/dev", MNT_DETACH);
	if (chdir(NEW_ROOT) || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		fail("entering the host's root: %s", strerror(errno));
}

void enter_host_files(void)
{
	mount_root();
	mount_kernel_files();
	enter_root();
}
