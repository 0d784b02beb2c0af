/* SPDX-License-Identifier: GPL-2.0 */
/* Automatic migration: what is decided without a page, a lock or a clock. */
#ifndef _MM_AUTO_MIGRATE_DECIDE_H
#define _MM_AUTO_MIGRATE_DECIDE_H

#include <linux/auto_migrate_types.h>

/**
 * enum auto_action - what becomes of a task that stays on another node
 * @AUTO_BALANCING: nothing: NUMA balancing prefers another node for it
 * @AUTO_NODE: nothing: it may have no memory there, or there is none
 * @AUTO_POLICY: nothing: it has a memory policy
 * @AUTO_THREADS: nothing: its memory is that of others, who run elsewhere
 * @AUTO_DECLINED: how many reasons for nothing there are
 * @AUTO_DIRECT: its memory moves now
 * @AUTO_LAZY: its memory moves when it is used next
 */
enum auto_action {
	AUTO_BALANCING,
	AUTO_NODE,
	AUTO_POLICY,
	AUTO_THREADS,
	AUTO_DECLINED,
	AUTO_DIRECT = AUTO_DECLINED,
	AUTO_LAZY,
};

/**
 * struct auto_facts - what is known of a task that stays on another node
 * @node_fits: it may have memory there, and there is some
 * @policy: it has a memory policy
 * @balancing: NUMA balancing wants it on another node, where it may run
 * @borrowed: its memory is its parent's, which waits for it
 * @lazy: its cpuset wants pages to move when they are used
 * @threads: of its process
 * @there: of these, on the new node
 */
struct auto_facts {
	bool node_fits;
	bool policy;
	bool balancing;
	bool borrowed;
	bool lazy;
	unsigned int threads;
	unsigned int there;
};

/**
 * enum auto_turn - who walks?
 * @AUTO_TAKE: this thread
 * @AUTO_WAIT: another one does right now
 * @AUTO_DONE: nobody: another one has not long ago
 */
enum auto_turn {
	AUTO_TAKE,
	AUTO_WAIT,
	AUTO_DONE,
};

void auto_settle(struct auto_migrate_place *place, int node);
bool auto_seen(struct auto_migrate_place *place, int node, unsigned long now,
	       unsigned long settle, unsigned long interval);
enum auto_action auto_action(const struct auto_facts *facts);
enum auto_turn auto_turn(const struct auto_migrate_claim *claim, int from,
			 int to, bool lazy, unsigned long now,
			 unsigned long lease, unsigned long interval);
bool auto_shared(bool likely, unsigned int mapcount, unsigned int nr_pages,
		 unsigned int max_mapcount);
void auto_limit(struct auto_migrate_limits *limits,
		const struct auto_migrate_limits *own);

#endif /* _MM_AUTO_MIGRATE_DECIDE_H */
