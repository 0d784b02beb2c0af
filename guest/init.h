/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the parts of the small guest's init; init.c describes the whole. */
#ifndef TERRACE_INIT_H
#define TERRACE_INIT_H

#define MAX_SYSCTLS 256
/* src/terrace/lab/out.py has the same. */
#ifndef OUT_DIR
#define OUT_DIR "/run/terrace/out"
#endif

/* The host's request. */
struct conf {
	char **arg, **env;	/* as execve() wants them */
	char *sysctl[MAX_SYSCTLS];
	int args, envs, sysctls;
	const char *cwd, *root, *scratch, *tty, *hostname;
	const char *out;	/* bytes of files that the host accepts from OUT_DIR; NULL: no such folder */
	long beat_ms;
};

extern struct conf conf;

/* Print why the machine cannot be set up as requested, then power off. */
__attribute__((format(printf, 1, 2), noreturn)) void fail(const char *fmt, ...);

/* init_files.c */
void make_dir(const char *path);
void must_mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data);
/* Build the command's file system and make it this process's root. */
void enter_host_files(void);

/* init_out.c: send the files in OUT_DIR through a port. */
void send_files(int port);

#endif
