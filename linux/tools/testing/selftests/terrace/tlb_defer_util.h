/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the selftests of deferred TLB flushes: the switch, pages that migrate, and a
 * reader on a separate CPU that must not miss a store.
 */
#ifndef TLB_DEFER_UTIL_H
#define TLB_DEFER_UTIL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mtier_util.h"

#define TD_DIR		"/sys/kernel/mm/tlb_defer/"
#define TD_DEBUG	"/sys/kernel/debug/tlb_defer/"

/* CPUs without other tasks: isolcpus= of the tests' machine */
#define TD_READER_CPU	2
#define TD_OTHER_CPU	3

unsigned int td_times(unsigned int n);
int td_main(const struct mt_check *checks, size_t n);

int td_mode(const char *mode);
void td_forever(bool on);
void td_race_us(unsigned int us);
long long td_knob(const char *name);
long long td_ipis_of(int cpu);
long long td_ipis(void);
long long td_judged(const struct mt_snap *before);
int td_back_off(int cpu);

int td_node_a(void);
int td_node_b(void);
long td_move(void *p, size_t pages, int node);
bool td_all_moved(void *p, size_t pages, int node);
bool td_swap_on(void);
bool td_swap_out(void *p);
int td_file(size_t size);
int td_reopen(int fd, int flags);

/**
 * struct td_reader - a pinned thread that reads a page, without system calls
 * @page: address of a number; the writer only increases it
 * @cpu: its CPU
 * @flag: the number that the writer has stored; read before @page
 * @hold: do not access @page
 * @held: it does not
 * @stop: end
 * @rounds: number of reads of @page
 * @stale: number of reads in which @page was less than @flag
 */
struct td_reader {
	volatile uint64_t *page;
	int cpu;
	atomic_ulong flag;
	atomic_bool hold;
	atomic_bool held;
	atomic_bool stop;
	atomic_ulong rounds;
	atomic_ulong stale;
	pthread_t thread;
};

void td_reader_start(struct td_reader *r, void *page, int cpu);
void td_reader_hold(struct td_reader *r, bool hold);
void td_reader_pass(struct td_reader *r);
void td_reader_stop(struct td_reader *r);
void td_use_others(void);
void td_leave_others(void);

/**
 * struct td_looker - a thread that looks at every page of a file of td_file()
 * @p: where it is mapped
 * @pages: how many
 * @cpu: where it runs
 * @stop: end
 * @rounds: how often it has seen them all
 * @wrong: words that were not what the file holds
 */
struct td_looker {
	const volatile uint64_t *p;
	size_t pages;
	int cpu;
	atomic_bool stop;
	atomic_ulong rounds;
	atomic_ulong wrong;
	pthread_t thread;
};

void *td_map_file(size_t size);
void td_look_at(struct td_looker *l, void *p, size_t pages, int cpu);
void td_look_away(struct td_looker *l);
void td_scribble(int node, size_t size);
int td_reuse(bool forever, unsigned int times);
void *td_watch(struct td_looker *l, size_t pages);
int td_wait_begins(struct td_looker *l, void **p, size_t pages);
int td_right_to_the_end(struct td_looker *l);

#endif /* TLB_DEFER_UTIL_H */
