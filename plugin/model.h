/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory-timing model: the cost of the guest's accesses on the modelled machine.
 *
 * Pure: it does not depend on QEMU, has a clock of its own, takes no lock and allocates only in
 * model_new().  docs/explanation/timing-model.md describes the model and its limits.
 *
 * Each vCPU has private L1 and L2 caches, a TLB of two levels and a clock; all share a last-level
 * cache (LLC) and the memory nodes.  A call of model_access() is one access.  The clock of a vCPU
 * is advanced by its instructions and by its stalls.  Memory that many CPUs want answers more
 * slowly: every window_ps of its time a vCPU works out, from its own traffic and what the others
 * published, how much busier each node is than idle, and charges the difference.
 *
 * One thread may call for one vCPU at a time.  Different vCPUs may be called for at once: the LLC
 * and the published traffic are then accessed with relaxed atomics, so that a race may lose or
 * double an LLC line, and nothing else.  With one thread all is deterministic.
 */
#ifndef TERRACE_MODEL_H
#define TERRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_MAX_NODES	64
#define MODEL_MAX_CPUS	64
#define MODEL_LINE	64u
#define MODEL_NO_NODE	MODEL_MAX_NODES	/* not memory of a node: device memory, firmware */

enum model_level { MODEL_L1, MODEL_L2, MODEL_LLC, MODEL_LEVELS };
enum model_tlb_level { MODEL_DTLB_4K, MODEL_DTLB_2M, MODEL_STLB, MODEL_TLBS };

/* Flags of an access. */
#define MODEL_WRITE	1u
#define MODEL_CHAINED	2u	/* a load whose address is what the load before it gave: no overlap */

/* All times in picoseconds; bandwidths in bytes per nanosecond (a GB/s is 1). */
struct model_curve {
	double flat, linear;		/* shares of the sustained bandwidth where the regions end */
	double at_linear, at_full;	/* factors of the idle latency there and at all of it */
	double overload;		/* beyond: the factor grows e-fold for each 1/overload */
};

struct model_config {
	char name[64];
	unsigned int nr_nodes, nr_cpus;
	uint64_t gap_base, gap_size;	/* addresses without memory, which .node does not have; size 0: none */
	struct {
		uint64_t base, size;	/* addresses as the translate function gives them */
		uint64_t skew;		/* of these against the guest's own, modulo 2M */
		double write_cost;	/* time of a written byte, relative to a read one */
	} node[MODEL_MAX_NODES];
	unsigned int cpu_node[MODEL_MAX_CPUS];
	struct {
		uint64_t latency_ps;
		double bandwidth;
	} access[MODEL_MAX_NODES][MODEL_MAX_NODES];	/* [of the CPU][of the memory] */
	struct {
		uint64_t size;
		unsigned int ways;
		uint64_t latency_ps;
	} cache[MODEL_LEVELS];
	struct {
		unsigned int entries, ways;
		uint64_t latency_ps;	/* of a hit in the STLB; 0 for the first level */
	} tlb[MODEL_TLBS];
	unsigned int pde_entries;	/* cached page-directory entries: such a walk reads one level */
	uint64_t insn_ps;
	double overlap_random, overlap_stream, overlap_store;	/* misses that are waited for at once */
	double cores_per_cpu;		/* factor for a vCPU's traffic */
	uint64_t window_ps;
	/* Cost of a request to flush: to its sender, to its sender for each receiving core, to a receiver. */
	uint64_t shootdown_send_ps, shootdown_each_ps, shootdown_receive_ps;
	struct model_curve curve;
};

struct model_tier {
	uint64_t accesses[2];		/* [0] reads, [1] writes, wherever they hit */
	uint64_t misses[2];		/* those that went to the node's memory */
	int64_t stall_ps;		/* waited for it */
};

/* Work of one kind of task in one mode on one vCPU. */
struct model_counts {
	uint64_t insns;
	uint64_t l1_miss, l2_miss, llc_miss, dtlb_miss, stlb_miss, walk_reads, huge;
	uint64_t shootdowns_sent, shootdowns_received;
	int64_t stall_ps;		/* all of it: caches, walks, memory, shootdowns */
	struct model_tier tier[MODEL_MAX_NODES + 1];
};

struct model_tlb_entry {
	uint64_t tag;		/* 0: empty */
	uint64_t key;		/* of the page's first line, as cache words have it */
	uint32_t gen;		/* looked up in this generation of the vCPU's translations */
	uint32_t node;
};

struct model_tlb {
	struct model_tlb_entry *entry;
	uint64_t mask;
	unsigned int ways;
};

/*
 * A cache: for each set its ways, most recently used first.  A word is
 * line << 8 | MODEL_VALID | node << 1 | dirty.
 */
struct model_cache {
	uint64_t *word;
	uint64_t mask;
	unsigned int ways;
};

#define MODEL_VALID	(1ull << 63)
#define MODEL_VPN_MASK	((1ull << 36) - 1)
#define MODEL_STREAMS	16

struct model_node_use {
	double busy_ps;		/* sum of utilisation x time */
	double factor_ps;	/* sum of latency factor x time */
	uint64_t bytes[2];	/* read, written */
};

/* Demand of a vCPU in a window; the published one is a mean over its last windows. */
struct model_demand {
	uint64_t active;			/* 0: the vCPU is idle */
	uint64_t other_ps;			/* time that does not depend on memory */
	uint64_t stall_ps[MODEL_MAX_NODES];	/* waited for each node at its idle latency */
	uint64_t load[MODEL_MAX_NODES];		/* ps that a node needs for it at full bandwidth */
};

struct model_cpu {
	/* Used by every access. */
	struct model_tlb dtlb;
	struct model_cache l1;
	uint64_t epoch[2];	/* part of every tag: what has another one was flushed; user, kernel */
	uint32_t gen;
	unsigned int number;
	/* Used by misses. */
	struct model_tlb dtlb_huge, stlb, pde;
	struct model_cache l2;
	uint64_t stream[MODEL_STREAMS];
	unsigned int next_stream;
	unsigned int home;		/* node of the CPU */
	uint64_t clock_ps;		/* modelled time of this vCPU */
	uint64_t idle_ps;		/* of that, time that it only caught up with the others */
	uint64_t window_start_ps;
	struct model_demand window;	/* being collected; .other_ps and .active are not used */
	uint64_t factor[MODEL_MAX_NODES];	/* of the latency, 1024 = 1 */
	struct model_node_use use[MODEL_MAX_NODES];
	uint64_t use_ps;		/* the time that the sums in use[] stand for */
	uint64_t untranslated;		/* accesses without a known address */
	uint64_t wake_ps;		/* since it halted, another one woke it at this time; 0: none did */
	struct model_counts *asked;	/* counters of the task that sent its last request to flush */
	/* Used by others. */
	uint64_t owed_ps;		/* cost of the receivers of that request, not yet added to its clock */
	struct model_demand demand __attribute__((aligned(64)));
};

/*
 * Get the address of @vaddr in the terms of config.node, and whether it is mapped by an entry for
 * 2M.  False if it is unknown: such an access costs nothing and is counted as untranslated.
 */
typedef bool (*model_translate_t)(uintptr_t context, uint64_t vaddr, uint64_t *paddr, bool *huge);

/* An access missed all caches. Called with what model_access() was given. */
typedef void (*model_missed_t)(struct model_cpu *cpu, struct model_counts *counts, uint64_t vaddr);

/* The second level of the TLB gave up a small page of user space that was not flushed. */
typedef void (*model_evicted_t)(const struct model_cpu *cpu, uint64_t vaddr);

struct model {
	struct model_config config;
	model_translate_t translate;
	model_missed_t missed;		/* may be NULL */
	model_evicted_t evicted;	/* may be NULL */
	struct model_cpu *cpu;
	struct model_cache llc;
	uint64_t sender;		/* vCPU with the last request to flush, plus 1; 0: none yet */
	double load_per_byte[MODEL_MAX_NODES][MODEL_MAX_NODES][2];	/* ps; [of the CPU][of the memory][write] */
};

/* NULL, with a text at @error, for a machine that cannot be. */
struct model *model_new(const struct model_config *config, model_translate_t translate, const char **error);
void model_free(struct model *m);

/* Cost of a request to flush to its sender, for each receiving vCPU, which stands for cores_per_cpu cores. */
uint64_t model_each_ps(const struct model_config *config);

/* Factor of the idle latency at a utilisation (1: the sustained bandwidth); at least 1. */
double model_curve(const struct model_curve *curve, double utilisation);

unsigned int model_node_of(const struct model_config *config, uint64_t paddr);

void model_access_slow(struct model *m, struct model_cpu *cpu, struct model_counts *counts, uint64_t vaddr,
		       unsigned int flags, uintptr_t context);

/* Instructions that take time. */
static inline void model_insns(const struct model *m, struct model_cpu *cpu, uint64_t insns)
{
	cpu->clock_ps += insns * m->config.insn_ps;
}

static inline uint64_t model_tag(const struct model_cpu *cpu, uint64_t vaddr)
{
	return (vaddr >> 12 & MODEL_VPN_MASK) | cpu->epoch[vaddr >> 63];
}

/* One access: a hit in the first ways of the dTLB and of L1 is decided here. */
static inline void model_access(struct model *m, struct model_cpu *cpu, struct model_counts *counts,
				uint64_t vaddr, unsigned int flags, uintptr_t context)
{
	const struct model_tlb_entry *e = &cpu->dtlb.entry[(vaddr >> 12 & cpu->dtlb.mask) * cpu->dtlb.ways];
	unsigned int write = flags & MODEL_WRITE;

	if (__builtin_expect(e->tag == model_tag(cpu, vaddr) && e->gen == cpu->gen, 1)) {
		uint64_t key = e->key + ((vaddr & 0xfc0) << 2);
		uint64_t *set = &cpu->l1.word[(key >> 8 & cpu->l1.mask) * cpu->l1.ways];

		if (__builtin_expect((*set & ~1ull) == key, 1)) {
			*set |= write;
			counts->tier[e->node].accesses[write]++;
			return;
		}
	}
	model_access_slow(m, cpu, counts, vaddr, flags, context);
}

/* The guest flushed all translations of its CPU, or those of user space (no PCID), or one of unknown address. */
void model_flush_all(struct model_cpu *cpu);
void model_flush_user(struct model_cpu *cpu);
void model_flush_one(struct model_cpu *cpu);

/*
 * The vCPU sent, or received, a request to flush.  The cost of a receiver to its sender is added
 * to the sender's clock at the end of its window, or at its next request.
 */
void model_shootdown_sent(struct model *m, struct model_cpu *cpu, struct model_counts *counts);
void model_shootdown_received(struct model *m, struct model_cpu *cpu, struct model_counts *counts);

/*
 * The vCPU becomes idle; it halts; it is busy and wakes another one; it becomes busy again.  The
 * last starts at the time of the wake-up, or else at the present time of the others.
 */
void model_idle(struct model *m, struct model_cpu *cpu, struct model_counts *counts);
void model_halt(struct model_cpu *cpu);
void model_wake(struct model *m, const struct model_cpu *cpu);
void model_busy(struct model *m, struct model_cpu *cpu);

/* Settle the open window, for exact figures at a boundary. */
void model_settle(struct model *m, struct model_cpu *cpu, struct model_counts *counts);

/* Modelled time of the machine: the furthest clock. */
uint64_t model_now_ps(const struct model *m);

#endif /* TERRACE_MODEL_H */
