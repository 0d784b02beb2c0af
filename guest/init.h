/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the small guest's init share; init.c says what it is all about. */
#ifndef TERRACE_INIT_H
#define TERRACE_INIT_H

#define MAX_SYSCTLS 256
/* src/terrace/lab/out.py has the same. */
#ifndef OUT_DIR
#define OUT_DIR "/run/terrace/out"
#endif

/* What the host asked for. */
struct conf {
	char **arg, **env;	/* as execve() wants them */
	char *sysctl[MAX_SYSCTLS];
	int args, envs, sysctls;
	const char *cwd, *root, *scratch, *tty, *hostname;
	const char *out;	/* bytes of files that the host accepts from OUT_DIR; NULL: no such folder */
	long beat_ms;
};

extern struct conf conf;

/* The machine cannot be what was asked for: say so, then power off. */
__attribute__((format(printf, 1, 2), noreturn)) void fail(const char *fmt, ...);

/* init_files.c */
void make_dir(const char *path);
void must_mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data);
/* Build the command's file system and make it this process's root. */
void enter_host_files(void);

/* init_out.c: send the files in OUT_DIR through a port. */
void send_files(int port);

#endif
