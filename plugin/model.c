// SPDX-License-Identifier: GPL-2.0
/* The memory-timing model; see model.h and docs/explanation/timing-model.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "balance.h"
#include "model.h"

#define EPOCH_STEP	(1ull << 37)	/* above the page number and EPOCH_HUGE's bit of a tag */
#define HUGE_TAG	(1ull << 36)
#define FACTOR_ONE	1024u
#define BLEND		8	/* number of windows that a published figure is the mean of */
/* Page tables have no address that we could know; their lines get some that no memory has. */
#define TABLE_LINES	(1ull << 44)
#define DIRECTORY_LINES	(3ull << 43)

/* ---- caches ---- */

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static uint64_t key_of(uint64_t line, unsigned int node)
{
	return MODEL_VALID | line << 8 | (uint64_t)node << 1;
}

static uint64_t *set_of(const struct model_cache *c, uint64_t key)
{
	return &c->word[(key >> 8 & c->mask) * c->ways];
}

/* Is the line there? Then it is the set's most recent one now, and dirty if it was or @dirty. */
static bool cache_touch(const struct model_cache *c, uint64_t key, uint64_t dirty)
{
	uint64_t *set = set_of(c, key);

	for (unsigned int i = 0; i < c->ways; i++) {
		uint64_t word = load(&set[i]);

		if ((word & ~1ull) != key)
			continue;
		for (; i; i--)
			store(&set[i], load(&set[i - 1]));
		store(&set[0], word | dirty);
		return true;
	}
	return false;
}

/* Put a line that is not there in front. Returns the word that fell out, 0 for none. */
static uint64_t cache_fill(const struct model_cache *c, uint64_t word)
{
	uint64_t *set = set_of(c, word);
	uint64_t last = load(&set[c->ways - 1]);

	for (unsigned int i = c->ways - 1; i; i--)
		store(&set[i], load(&set[i - 1]));
	store(&set[0], word);
	return last;
}

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static bool cache_init(struct model_cache *c, uint64_t size, unsigned int ways)
{
	uint64_t sets = ways ? size / MODEL_LINE / ways : 0;

	if (!is_power_of_two(sets) || sets * ways * MODEL_LINE != size)
		return false;
	c->mask = sets - 1;
	c->ways = ways;
	c->word = calloc(sets * ways, sizeof(*c->word));
	return c->word;
}

/* ---- TLBs ---- */

static bool tlb_init(struct model_tlb *t, unsigned int entries, unsigned int ways)
{
	unsigned int sets = ways ? entries / ways : 0;

	if (!is_power_of_two(sets) || sets * ways != entries)
		return false;
	t->mask = sets - 1;
	t->ways = ways;
	t->entry = calloc(entries, sizeof(*t->entry));
	return t->entry;
}

static struct model_tlb_entry *tlb_set(const struct model_tlb *t, uint64_t tag)
{
	return &t->entry[(tag & t->mask) * t->ways];
}

static void tlb_to_front(struct model_tlb_entry *set, unsigned int i)
{
	struct model_tlb_entry found = set[i];

	memmove(&set[1], &set[0], i * sizeof(*set));
	set[0] = found;
}

/* The entry, now its set's most recent one, or NULL. */
static struct model_tlb_entry *tlb_touch(const struct model_tlb *t, uint64_t tag)
{
	struct model_tlb_entry *set = tlb_set(t, tag);

	for (unsigned int i = 0; i < t->ways; i++) {
		if (set[i].tag != tag)
			continue;
		if (i)
			tlb_to_front(set, i);
		return &set[0];
	}
	return NULL;
}

static bool tlb_flushed(const struct model_cpu *cpu, uint64_t tag)
{
	bool kernel = tag & (tag & HUGE_TAG ? 1ull << 26 : 1ull << 35);

	return (tag & ~(EPOCH_STEP - 1)) != cpu->epoch[kernel];
}

/* Choose the way for the next entry of this set: one with a flushed entry, or the least recently used. */
static unsigned int tlb_victim(const struct model_cpu *cpu, const struct model_tlb *t, uint64_t tag)
{
	const struct model_tlb_entry *set = tlb_set(t, tag);
	unsigned int i = 0;

	while (i < t->ways - 1 && !tlb_flushed(cpu, set[i].tag))
		i++;
	return i;
}

static struct model_tlb_entry *tlb_fill(const struct model_cpu *cpu, const struct model_tlb *t,
					const struct model_tlb_entry *entry)
{
	struct model_tlb_entry *set = tlb_set(t, entry->tag);
	unsigned int i = tlb_victim(cpu, t, entry->tag);

	memmove(&set[1], &set[0], i * sizeof(*set));
	set[0] = *entry;
	return &set[0];
}

static void tlb_drop(const struct model_tlb *t, uint64_t tag)
{
	struct model_tlb_entry *e = tlb_touch(t, tag);

	if (e)
		e->tag = 0;
}

static uint64_t huge_tag(const struct model_cpu *cpu, uint64_t vaddr)
{
	return (vaddr >> 21 & (MODEL_VPN_MASK >> 9)) | HUGE_TAG | cpu->epoch[vaddr >> 63];
}

void model_flush_all(struct model_cpu *cpu)
{
	cpu->epoch[0] += EPOCH_STEP;
	cpu->epoch[1] += EPOCH_STEP;
}

void model_flush_user(struct model_cpu *cpu)
{
	cpu->epoch[0] += EPOCH_STEP;
}

void model_flush_one(struct model_cpu *cpu)
{
	cpu->gen++;
}

/* ---- memory ---- */

unsigned int model_node_of(const struct model_config *config, uint64_t paddr)
{
	for (unsigned int n = 0; n < config->nr_nodes; n++)
		if (paddr - config->node[n].base < config->node[n].size)
			return n;
	return MODEL_NO_NODE;
}

double model_curve(const struct model_curve *c, double u)
{
	if (u <= c->flat)
		return 1.0;
	if (u <= c->linear)
		return 1.0 + (c->at_linear - 1.0) * (u - c->flat) / (c->linear - c->flat);
	if (u <= 1.0)
		return c->at_linear * pow(c->at_full / c->at_linear, (u - c->linear) / (1.0 - c->linear));
	u = c->at_full * exp((u - 1.0) * c->overload);
	return u < BALANCE_MAX_FACTOR ? u : BALANCE_MAX_FACTOR;
}

/* Bytes come from or go to a node; what that costs the node depends on the way. */
static void add_traffic(struct model *m, struct model_cpu *cpu, unsigned int node, unsigned int write)
{
	if (node >= MODEL_MAX_NODES)
		return;
	cpu->use[node].bytes[write] += MODEL_LINE;
	cpu->window.load[node] += (uint64_t)(m->load_per_byte[cpu->home][node][write] * MODEL_LINE);
}

/* Is this the next line of a run of lines? Prefetching then hides most of the wait. */
static bool in_stream(struct model_cpu *cpu, uint64_t line)
{
	for (unsigned int i = 0; i < MODEL_STREAMS; i++) {
		if (cpu->stream[i] + 1 != line && cpu->stream[i] - 1 != line)
			continue;
		cpu->stream[i] = line;
		return true;
	}
	cpu->stream[cpu->next_stream++ % MODEL_STREAMS] = line;
	return false;
}

/* ---- shared bandwidth ---- */

static void blend(uint64_t *published, uint64_t now)
{
	uint64_t was = load(published);

	store(published, was ? was + (uint64_t)((int64_t)(now - was) / BLEND) : now);
}

/* A single window is not representative: dirty lines leave a cache in bursts. */
static void publish(const struct model *m, struct model_cpu *cpu)
{
	for (unsigned int n = 0; n < m->config.nr_nodes; n++) {
		blend(&cpu->demand.stall_ps[n], cpu->window.stall_ps[n]);
		blend(&cpu->demand.load[n], cpu->window.load[n]);
	}
	blend(&cpu->demand.other_ps, cpu->window.other_ps);
	store(&cpu->demand.active, 1);
}

static void stall(struct model_cpu *cpu, struct model_counts *counts, uint64_t ps)
{
	counts->stall_ps += (int64_t)ps;
	cpu->clock_ps += ps;
}

/* Add the time that receivers of its requests have cost it since the last call. */
static void pay_owed(struct model_cpu *cpu)
{
	uint64_t ps = load(&cpu->owed_ps) ? __atomic_exchange_n(&cpu->owed_ps, 0, __ATOMIC_RELAXED) : 0;

	if (ps)
		stall(cpu, cpu->asked, ps);
}

uint64_t model_each_ps(const struct model_config *config)
{
	return (uint64_t)((double)config->shootdown_each_ps * config->cores_per_cpu);
}

/* Charge what the window's waits took longer, or shorter, than assumed. */
static void close_window(struct model *m, struct model_cpu *cpu, struct model_counts *counts)
{
	double factor[MODEL_MAX_NODES], used[MODEL_MAX_NODES];
	uint64_t elapsed, memory = 0;
	int64_t change = 0;

	pay_owed(cpu);
	elapsed = cpu->clock_ps - cpu->window_start_ps;
	for (unsigned int n = 0; n < m->config.nr_nodes; n++) {
		memory += cpu->window.stall_ps[n] * cpu->factor[n] / FACTOR_ONE;
		factor[n] = (double)cpu->factor[n] / FACTOR_ONE;
	}
	cpu->window.other_ps = elapsed > memory ? elapsed - memory : 0;
	balance(m, cpu, factor, used);
	for (unsigned int n = 0; n < m->config.nr_nodes; n++) {
		uint64_t scaled = (uint64_t)(factor[n] * FACTOR_ONE);
		int64_t more = (int64_t)cpu->window.stall_ps[n] * ((int64_t)scaled - (int64_t)cpu->factor[n]) /
			       FACTOR_ONE;

		counts->tier[n].stall_ps += more;
		change += more;
		cpu->factor[n] = scaled;
	}
	counts->stall_ps += change;
	cpu->clock_ps += (uint64_t)change;
	elapsed = cpu->clock_ps - cpu->window_start_ps;
	for (unsigned int n = 0; n < m->config.nr_nodes; n++) {
		cpu->use[n].busy_ps += used[n] * (double)elapsed;
		cpu->use[n].factor_ps += factor[n] * (double)elapsed;
	}
	cpu->use_ps += elapsed;
	publish(m, cpu);
	cpu->window_start_ps = cpu->clock_ps;
	memset(&cpu->window, 0, sizeof(cpu->window));
}

void model_settle(struct model *m, struct model_cpu *cpu, struct model_counts *counts)
{
	pay_owed(cpu);
	if (cpu->clock_ps != cpu->window_start_ps)
		close_window(m, cpu, counts);
}

/* ---- one access ---- */

static uint64_t overlapped(uint64_t ps, double overlap)
{
	return (uint64_t)((double)ps / overlap);
}

static double overlap_of(const struct model *m, unsigned int flags, bool stream)
{
	if (flags & MODEL_CHAINED)
		return 1.0;
	if (stream)
		return m->config.overlap_stream;
	return flags & MODEL_WRITE ? m->config.overlap_store : m->config.overlap_random;
}

/* A dirty line falls out of a level: the next one has it, or gets it. */
static void write_back(struct model *m, struct model_cpu *cpu, enum model_level from, uint64_t word)
{
	const struct model_cache *next = from == MODEL_L1 ? &cpu->l2 : &m->llc;

	if (!(word & 1))
		return;
	if (from == MODEL_LLC) {
		add_traffic(m, cpu, word >> 1 & 63, 1);
		return;
	}
	if (!cache_touch(next, word & ~1ull, 1))
		write_back(m, cpu, from + 1, cache_fill(next, word));
}

/* A line that L1 (or, for a walk, the walker) does not have. Returns the wait in ps. */
static uint64_t fetch(struct model *m, struct model_cpu *cpu, struct model_counts *counts, uint64_t key,
		      unsigned int flags, uint64_t vaddr, bool data)
{
	unsigned int node = key >> 1 & 63;
	uint64_t wait, idle;
	double overlap;
	bool stream;

	if (cache_touch(&cpu->l2, key, 0))
		return overlapped(m->config.cache[MODEL_L2].latency_ps, overlap_of(m, flags, false));
	counts->l2_miss += data;
	stream = data && in_stream(cpu, key >> 8 & ((1ull << 55) - 1));
	overlap = overlap_of(m, flags, stream);
	write_back(m, cpu, MODEL_L2, cache_fill(&cpu->l2, key));
	if (cache_touch(&m->llc, key, 0))
		return overlapped(m->config.cache[MODEL_LLC].latency_ps, overlap);
	write_back(m, cpu, MODEL_LLC, cache_fill(&m->llc, key));
	add_traffic(m, cpu, node, 0);
	idle = overlapped(m->config.access[cpu->home][node].latency_ps, overlap);
	wait = idle * cpu->factor[node] / FACTOR_ONE;
	cpu->window.stall_ps[node] += idle;
	counts->tier[node].stall_ps += (int64_t)wait;
	if (data) {
		counts->llc_miss++;
		counts->tier[node].misses[flags & MODEL_WRITE]++;
		if (m->missed)
			m->missed(cpu, counts, vaddr);
	}
	return wait;
}

/*
 * A walk reads the last level of the tables, and the one above unless it is cached; through L2 and
 * LLC.  Walks of accesses that overlap do so too.
 */
static uint64_t walk(struct model *m, struct model_cpu *cpu, struct model_counts *counts, uint64_t vaddr,
		     unsigned int flags, bool huge)
{
	uint64_t directory = huge_tag(cpu, vaddr), wait = 0, page = vaddr >> 12 & MODEL_VPN_MASK;
	struct model_tlb_entry entry = { .tag = directory };

	counts->stlb_miss++;
	if (huge || !tlb_touch(&cpu->pde, directory)) {
		counts->walk_reads++;
		wait += fetch(m, cpu, counts, key_of(DIRECTORY_LINES | page >> 12, cpu->home), flags, vaddr,
			      false);
		if (!huge)
			tlb_fill(cpu, &cpu->pde, &entry);
	}
	if (!huge) {
		counts->walk_reads++;
		wait += fetch(m, cpu, counts, key_of(TABLE_LINES | page >> 3, cpu->home), flags, vaddr, false);
	}
	return wait;
}

/* The page's entry as the guest's tables have it now. */
static bool look_up(struct model *m, struct model_cpu *cpu, uint64_t vaddr, uintptr_t context,
		    struct model_tlb_entry *entry, bool *huge)
{
	uint64_t paddr;

	if (!m->translate(context, vaddr, &paddr, huge)) {
		cpu->untranslated++;
		return false;
	}
	entry->gen = cpu->gen;
	entry->node = model_node_of(&m->config, paddr);
	paddr &= *huge ? ~0x1fffffull : ~0xfffull;
	entry->tag = *huge ? huge_tag(cpu, vaddr) : model_tag(cpu, vaddr);
	entry->key = key_of(paddr / MODEL_LINE, entry->node & 63);
	return true;
}

/*
 * Check an entry of an older generation.  After it was loaded, the guest flushed pages of unknown
 * address.  The entry is valid if the page table still has the same page.
 */
static bool still_good(struct model *m, struct model_cpu *cpu, uint64_t vaddr, uintptr_t context,
		       struct model_tlb_entry *entry)
{
	struct model_tlb_entry fresh;
	bool huge;

	if (entry->gen == cpu->gen)
		return true;
	if (!look_up(m, cpu, vaddr, context, &fresh, &huge) || fresh.tag != entry->tag || fresh.key != entry->key)
		return false;
	entry->gen = cpu->gen;
	return true;
}

static struct model_tlb_entry *find(struct model *m, struct model_cpu *cpu, const struct model_tlb *t,
				    uint64_t tag, uint64_t vaddr, uintptr_t context)
{
	struct model_tlb_entry *entry = tlb_touch(t, tag);

	if (!entry || still_good(m, cpu, vaddr, context, entry))
		return entry;
	tlb_drop(&cpu->dtlb, tag);
	tlb_drop(&cpu->dtlb_huge, tag);
	tlb_drop(&cpu->stlb, tag);
	return NULL;
}

/*
 * Load an entry into the second level.  Small pages of user space that it replaces are reported.  Such a
 * page can still be in the first level; a page in frequent use soon leaves that and is loaded again.
 */
static void stlb_fill(struct model *m, struct model_cpu *cpu, const struct model_tlb_entry *entry)
{
	uint64_t old = tlb_set(&cpu->stlb, entry->tag)[tlb_victim(cpu, &cpu->stlb, entry->tag)].tag;

	tlb_fill(cpu, &cpu->stlb, entry);
	if (m->evicted && !(old & HUGE_TAG) && !(old & 1ull << 35) && !tlb_flushed(cpu, old))
		m->evicted(cpu, (old & MODEL_VPN_MASK) << 12);
}

/* The translation of @vaddr, after what it costs to get it; NULL when there is none. */
static const struct model_tlb_entry *translate(struct model *m, struct model_cpu *cpu, struct model_counts *counts,
					       uint64_t vaddr, unsigned int flags, uintptr_t context,
					       uint64_t *wait)
{
	uint64_t small = model_tag(cpu, vaddr), large = huge_tag(cpu, vaddr);
	struct model_tlb_entry *entry, fresh;
	bool huge;

	entry = find(m, cpu, &cpu->dtlb, small, vaddr, context);
	if (entry)
		return entry;
	entry = find(m, cpu, &cpu->dtlb_huge, large, vaddr, context);
	if (entry)
		return entry;
	counts->dtlb_miss++;
	entry = find(m, cpu, &cpu->stlb, small, vaddr, context);
	if (!entry)
		entry = find(m, cpu, &cpu->stlb, large, vaddr, context);
	if (entry) {
		*wait = overlapped(m->config.tlb[MODEL_STLB].latency_ps, overlap_of(m, flags, false));
		fresh = *entry;
		huge = fresh.tag & HUGE_TAG;
	} else {
		if (!look_up(m, cpu, vaddr, context, &fresh, &huge))
			return NULL;
		*wait = walk(m, cpu, counts, vaddr, flags, huge);
		stlb_fill(m, cpu, &fresh);
	}
	return tlb_fill(cpu, huge ? &cpu->dtlb_huge : &cpu->dtlb, &fresh);
}

void model_access_slow(struct model *m, struct model_cpu *cpu, struct model_counts *counts, uint64_t vaddr,
		       unsigned int flags, uintptr_t context)
{
	unsigned int write = flags & MODEL_WRITE;
	const struct model_tlb_entry *entry;
	uint64_t wait = 0, key;

	entry = translate(m, cpu, counts, vaddr, flags, context, &wait);
	if (!entry)
		return;
	counts->tier[entry->node].accesses[write]++;
	counts->huge += (entry->tag & HUGE_TAG) != 0;
	if (entry->node < MODEL_MAX_NODES) {
		key = entry->key + ((vaddr & (entry->tag & HUGE_TAG ? 0x1fffc0 : 0xfc0)) << 2);
		if (!cache_touch(&cpu->l1, key, write)) {
			counts->l1_miss++;
			wait += fetch(m, cpu, counts, key, flags, vaddr, true);
			write_back(m, cpu, MODEL_L1, cache_fill(&cpu->l1, key | write));
		}
	}
	if (!wait)
		return;
	counts->stall_ps += (int64_t)wait;
	cpu->clock_ps += wait;
	if (cpu->clock_ps - cpu->window_start_ps >= m->config.window_ps)
		close_window(m, cpu, counts);
}

/* ---- vCPUs ---- */

void model_shootdown_sent(struct model *m, struct model_cpu *cpu, struct model_counts *counts)
{
	pay_owed(cpu);
	cpu->asked = counts;
	store(&m->sender, cpu->number + 1);
	counts->shootdowns_sent++;
	stall(cpu, counts, m->config.shootdown_send_ps);
}

void model_shootdown_received(struct model *m, struct model_cpu *cpu, struct model_counts *counts)
{
	uint64_t sender = load(&m->sender);

	pay_owed(cpu);
	counts->shootdowns_received++;
	stall(cpu, counts, m->config.shootdown_receive_ps);
	if (sender && sender != cpu->number + 1)
		__atomic_fetch_add(&m->cpu[sender - 1].owed_ps, model_each_ps(&m->config), __ATOMIC_RELAXED);
}

/* A short window is not representative of a busy vCPU: then its last published figures stay. */
void model_idle(struct model *m, struct model_cpu *cpu, struct model_counts *counts)
{
	if (cpu->clock_ps - cpu->window_start_ps >= m->config.window_ps / 2)
		close_window(m, cpu, counts);
	store(&cpu->demand.active, 0);
}

void model_halt(struct model_cpu *cpu)
{
	store(&cpu->wake_ps, 0);
}

void model_wake(struct model *m, const struct model_cpu *cpu)
{
	for (unsigned int i = 0; i < m->config.nr_cpus; i++)
		if (!load(&m->cpu[i].demand.active))
			store(&m->cpu[i].wake_ps, cpu->clock_ps);
}

/* The present of those that work; when none does, of all. */
static uint64_t present_ps(const struct model *m)
{
	uint64_t now = 0;

	for (unsigned int i = 0; i < m->config.nr_cpus; i++)
		if (load(&m->cpu[i].demand.active) && load(&m->cpu[i].clock_ps) > now)
			now = load(&m->cpu[i].clock_ps);
	return now ? now : model_now_ps(m);
}

void model_busy(struct model *m, struct model_cpu *cpu)
{
	uint64_t now = load(&cpu->wake_ps);

	if (!now)
		now = present_ps(m);
	if (now > cpu->clock_ps) {
		cpu->idle_ps += now - cpu->clock_ps;
		cpu->clock_ps = now;
	}
	store(&cpu->wake_ps, 0);
	cpu->window_start_ps = cpu->clock_ps;
	memset(&cpu->window, 0, sizeof(cpu->window));
	/* The best prediction of its traffic are the figures of its last busy time. */
	store(&cpu->demand.active, 1);
}

uint64_t model_now_ps(const struct model *m)
{
	uint64_t now = 0;

	for (unsigned int i = 0; i < m->config.nr_cpus; i++)
		if (load(&m->cpu[i].clock_ps) > now)
			now = load(&m->cpu[i].clock_ps);
	return now;
}

static const char *cpu_init(const struct model_config *c, struct model_cpu *cpu, unsigned int number)
{
	cpu->number = number;
	cpu->home = c->cpu_node[number];
	cpu->epoch[0] = cpu->epoch[1] = EPOCH_STEP;
	for (unsigned int n = 0; n < MODEL_MAX_NODES; n++)
		cpu->factor[n] = FACTOR_ONE;
	if (!cache_init(&cpu->l1, c->cache[MODEL_L1].size, c->cache[MODEL_L1].ways) ||
	    !cache_init(&cpu->l2, c->cache[MODEL_L2].size, c->cache[MODEL_L2].ways))
		return "a cache is not a power of two of sets of its ways";
	if (!tlb_init(&cpu->dtlb, c->tlb[MODEL_DTLB_4K].entries, c->tlb[MODEL_DTLB_4K].ways) ||
	    !tlb_init(&cpu->dtlb_huge, c->tlb[MODEL_DTLB_2M].entries, c->tlb[MODEL_DTLB_2M].ways) ||
	    !tlb_init(&cpu->stlb, c->tlb[MODEL_STLB].entries, c->tlb[MODEL_STLB].ways) ||
	    !tlb_init(&cpu->pde, c->pde_entries, c->pde_entries < 4 ? c->pde_entries : 4))
		return "a TLB is not a power of two of sets of its ways";
	return NULL;
}

static const char *check(const struct model_config *c)
{
	if (!c->nr_nodes || c->nr_nodes > MODEL_MAX_NODES || !c->nr_cpus || c->nr_cpus > MODEL_MAX_CPUS)
		return "no nodes, no CPUs, or too many";
	if (!c->insn_ps || !c->window_ps)
		return "an instruction or the window takes no time";
	if (c->overlap_random < 1 || c->overlap_stream < 1 || c->overlap_store < 1 || c->cores_per_cpu <= 0)
		return "an overlap below 1, or no cores";
	if (!(0 < c->curve.flat && c->curve.flat < c->curve.linear && c->curve.linear < 1) ||
	    !(1 <= c->curve.at_linear && c->curve.at_linear <= c->curve.at_full) || c->curve.overload <= 0)
		return "the response curve does not rise";
	for (unsigned int i = 0; i < c->nr_cpus; i++) {
		if (c->cpu_node[i] >= c->nr_nodes)
			return "a CPU is on a node that is not there";
		for (unsigned int n = 0; n < c->nr_nodes; n++)
			if (!c->access[c->cpu_node[i]][n].latency_ps || c->access[c->cpu_node[i]][n].bandwidth <= 0)
				return "a way from a CPU to memory has no latency or no bandwidth";
	}
	return NULL;
}

struct model *model_new(const struct model_config *config, model_translate_t translate_fn, const char **error)
{
	struct model *m = calloc(1, sizeof(*m));

	*error = check(config);
	if (!m || *error) {
		free(m);
		return NULL;
	}
	m->config = *config;
	m->translate = translate_fn;
	m->cpu = aligned_alloc(64, config->nr_cpus * sizeof(*m->cpu));
	memset(m->cpu, 0, config->nr_cpus * sizeof(*m->cpu));
	for (unsigned int i = 0; i < config->nr_cpus && !*error; i++)
		*error = cpu_init(config, &m->cpu[i], i);
	if (!*error && !cache_init(&m->llc, config->cache[MODEL_LLC].size, config->cache[MODEL_LLC].ways))
		*error = "the last-level cache is not a power of two of sets of its ways";
	if (*error) {
		model_free(m);
		return NULL;
	}
	for (unsigned int from = 0; from < config->nr_nodes; from++) {
		for (unsigned int to = 0; to < config->nr_nodes; to++) {
			double per_byte = 1000 * config->cores_per_cpu;

			if (config->access[from][to].bandwidth > 0)
				per_byte /= config->access[from][to].bandwidth;
			m->load_per_byte[from][to][0] = per_byte;
			m->load_per_byte[from][to][1] = per_byte * config->node[to].write_cost;
		}
	}
	return m;
}

void model_free(struct model *m)
{
	for (unsigned int i = 0; i < m->config.nr_cpus; i++) {
		struct model_cpu *cpu = &m->cpu[i];

		free(cpu->l1.word);
		free(cpu->l2.word);
		free(cpu->dtlb.entry);
		free(cpu->dtlb_huge.entry);
		free(cpu->stlb.entry);
		free(cpu->pde.entry);
	}
	free(m->cpu);
	free(m->llc.word);
	free(m);
}
