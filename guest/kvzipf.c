// SPDX-License-Identifier: GPL-2.0
/*
 * kvzipf: a key-value store under the mixes A to F of YCSB (Cooper et al., "Benchmarking cloud
 * serving systems with YCSB", SoCC 2010), with a zipfian choice of keys that is scattered over the
 * store.
 *
 * The store is a hash index with open addressing and a log of value slots: an update writes a fresh
 * slot ahead of the thread's place in the log and frees the old one.  A stripe of mutexes, by
 * key, guards an index entry and its value.
 *
 * Keys: 0 to records-1 are loaded before the run; insert number i of thread t makes key
 * records + i * threads + t, so that every thread knows what must be there.  "Latest" (mix D) prefers
 * the thread's own newest keys, then the newest loaded.  A scan (mix E) reads keys that follow one another by
 * number, for a hash index has no order of its own.
 *
 * Checks: every value carries its key, its version (also in the index) and a checksum, all verified
 * by every read; at the end all values again, and versions, keys and slots are counted against what
 * the threads did.
 */
#define _GNU_SOURCE
#include "wl_zipf.h"

#define STRIPES		1024u
#define HEADER_WORDS	4u
#define NO_SLOT		UINT32_MAX
#define LINE_VECTORS	4u

typedef uint64_t vector __attribute__((vector_size(16), may_alias));

struct entry {
	uint64_t key1;		/* key + 1; 0: empty */
	uint32_t slot, version;
};

enum op { READ, UPDATE, INSERT, SCAN, RMW, NR_OPS };

struct mix {
	unsigned int read_percent;
	enum op read, write;	/* what the reading and the writing share do */
	bool latest;
};

struct tally {
	uint64_t ops[NR_OPS], inserted, cursor, by_log2[64];
} __attribute__((aligned(64)));

static const struct mix mixes[] = {
	{ 50, READ, UPDATE, false },
	{ 95, READ, UPDATE, false },
	{ 100, READ, UPDATE, false },
	{ 95, READ, INSERT, true },
	{ 95, SCAN, INSERT, false },
	{ 50, READ, RMW, false },
};

static const char * const mix_names[] = { "A", "B", "C", "D", "E", "F", NULL };
static const char * const op_names[NR_OPS] = { "read", "update", "insert", "scan", "read_modify_write" };
static unsigned int mix_number;
static uint64_t value_size = 1024, theta_milli = 990, fill_percent = 70, read_percent = 101, scan_length = 100;
static uint64_t latency_every = 8;
static struct mix mix;
static struct wl_zipf zipf;
static pthread_mutex_t stripes[STRIPES];
static struct tally tallies[WL_MAX_THREADS];
static struct entry *table;
static uint64_t capacity, nr_slots, nr_records, max_inserts, scatter;
static uint64_t *used;		/* a bit for each slot */
static char *slots;

/* ---- values ---- */

static uint64_t *value_at(uint32_t slot)
{
	return (uint64_t *)(slots + slot * value_size);
}

static uint64_t base_of(uint64_t key, uint64_t version)
{
	return wl_mix(key * WL_GOLDEN + version + wl.seed);
}

/* Two sums over a line's vectors, the second over the first's steps, so that order counts. */
static inline void add_line(const vector *v, vector *a, vector *b)
{
	*a += v[0];
	*b += *a;
	*a += v[1];
	*b += *a;
	*a += v[2];
	*b += *a;
	*a += v[3];
	*b += *a;
}

/* Of all but the header. */
static uint64_t checksum_of(const vector *v)
{
	vector a = v[2], b = v[2];

	a += v[3];
	b += a;
	for (uint64_t lines = value_size / 64 - 1; lines; lines--) {
		v += LINE_VECTORS;
		add_line(v, &a, &b);
	}
	return wl_mix(a[0] + a[1] * WL_GOLDEN) ^ (b[0] + b[1] * WL_GOLDEN);
}

/* Key, version, checksum; then words that follow from the first two. */
static void write_value(uint64_t *value, uint64_t key, uint64_t version)
{
	const vector step = { 2 * WL_GOLDEN, 2 * WL_GOLDEN };
	uint64_t base = base_of(key, version);
	vector *v = (vector *)value, word = { base, base + WL_GOLDEN };

	for (uint64_t i = HEADER_WORDS / 2; i < value_size / 16; i += 2) {
		v[i] = word;
		word += step;
		v[i + 1] = word;
		word += step;
	}
	value[0] = key;
	value[1] = version;
	value[2] = checksum_of(v);
}

static bool value_is_right(const uint64_t *value, uint64_t key, uint64_t version)
{
	return value[0] == key && value[1] == version && value[HEADER_WORDS] == base_of(key, version) &&
	       value[2] == checksum_of((const vector *)value);
}

/* ---- slots ---- */

/* The next free slot of the log from @cursor on, which goes around. */
static uint32_t take_slot(uint64_t *cursor)
{
	uint64_t words = (nr_slots + 63) / 64;

	for (uint64_t tries = 0; tries < 2 * words; tries++) {
		uint64_t word = *cursor % words, bits = __atomic_load_n(&used[word], __ATOMIC_RELAXED);

		while (~bits) {
			unsigned int bit = (unsigned int)__builtin_ctzll(~bits);

			bits = __atomic_fetch_or(&used[word], 1ull << bit, __ATOMIC_ACQUIRE);
			if (!(bits & 1ull << bit)) {
				*cursor = word;
				return (uint32_t)(word * 64 + bit);
			}
		}
		*cursor = word + 1;
	}
	return NO_SLOT;
}

static void free_slot(uint32_t slot)
{
	__atomic_fetch_and(&used[slot / 64], ~(1ull << slot % 64), __ATOMIC_RELEASE);
}

/* ---- index ---- */

static inline uint64_t hash_of(uint64_t key)
{
	return wl_mix(key + 0x5bd1e995);
}

static inline pthread_mutex_t *stripe_of(uint64_t key)
{
	return &stripes[hash_of(key) % STRIPES];
}

/* The key's entry; with @make one is claimed when there is none. The caller holds the key's stripe. */
static struct entry *find(uint64_t key, bool make)
{
	uint64_t at = wl_below(hash_of(key), capacity);

	for (uint64_t tries = 0; tries < capacity; tries++) {
		struct entry *e = &table[at];
		uint64_t here = __atomic_load_n(&e->key1, __ATOMIC_ACQUIRE);

		if (!here && make && __atomic_compare_exchange_n(&e->key1, &here, key + 1, false, __ATOMIC_ACQ_REL,
								 __ATOMIC_ACQUIRE))
			return e;
		if (here == key + 1)
			return e;
		if (!here)
			return NULL;
		if (++at == capacity)
			at = 0;
	}
	return NULL;
}

/* ---- operations ---- */

static void read_key(struct wl_worker *w, uint64_t key)
{
	pthread_mutex_t *lock = stripe_of(key);
	const struct entry *e;

	pthread_mutex_lock(lock);
	e = find(key, false);
	if (!e || !value_is_right(value_at(e->slot), key, e->version))
		w->wrong++;
	pthread_mutex_unlock(lock);
}

/* Write the key's next version to a fresh slot; an insert makes the first one. */
static void write_key(struct wl_worker *w, struct tally *t, uint64_t key, bool insert, bool read_first)
{
	pthread_mutex_t *lock = stripe_of(key);
	struct entry *e;
	uint32_t slot, old;

	pthread_mutex_lock(lock);
	e = find(key, insert);
	slot = take_slot(&t->cursor);
	if (!e || slot == NO_SLOT || (insert && e->version) ||
	    (read_first && !value_is_right(value_at(e->slot), key, e->version))) {
		w->wrong++;
	} else {
		old = e->slot;
		write_value(value_at(slot), key, ++e->version);
		e->slot = slot;
		if (!insert)
			free_slot(old);
		w->writes++;
	}
	pthread_mutex_unlock(lock);
}

/* A loaded key, by zipfian rank. */
static inline uint64_t draw_key(struct tally *t, uint64_t *state)
{
	uint64_t rank = wl_zipf_draw(&zipf, state);

	t->by_log2[63 - __builtin_clzll(rank + 1)]++;
	return rank * scatter % nr_records;
}

/* A key by how new it is: the thread's own inserts first, then the loaded ones from the last on. */
static inline uint64_t draw_latest(const struct wl_worker *w, struct tally *t, uint64_t *state)
{
	uint64_t rank = wl_zipf_draw(&zipf, state);

	t->by_log2[63 - __builtin_clzll(rank + 1)]++;
	if (rank < t->inserted)
		return nr_records + (t->inserted - 1 - rank) * wl.threads + w->id;
	return nr_records - 1 - (rank - t->inserted);
}

static void insert_next(struct wl_worker *w, struct tally *t)
{
	/* The reserve is full (only with --ops or --seconds): write the last key again. */
	if (t->inserted == max_inserts / wl.threads)
		write_key(w, t, t->inserted ? nr_records + (t->inserted - 1) * wl.threads + w->id : 0, false, false);
	else
		write_key(w, t, nr_records + t->inserted++ * wl.threads + w->id, true, false);
}

/* Operation @number; its kind and keys follow from the number alone, but for keys that were inserted. */
static void operate(struct wl_worker *w, struct tally *t, uint64_t number)
{
	uint64_t state = wl_hash(20, number) | 1, key, length;
	bool reads = wl_below(wl_next(&state), 100) < mix.read_percent;
	enum op op = reads ? mix.read : mix.write;

	t->ops[op]++;
	if (op == INSERT) {
		insert_next(w, t);
		return;
	}
	key = mix.latest ? draw_latest(w, t, &state) : draw_key(t, &state);
	switch (op) {
	case READ:
		read_key(w, key);
		break;
	case SCAN:
		length = 1 + wl_below(wl_next(&state), scan_length);
		for (uint64_t i = 0; i < length && key + i < nr_records; i++)
			read_key(w, key + i);
		break;
	default:
		write_key(w, t, key, false, op == RMW);
		break;
	}
	w->checksum += wl_mix(number * NR_OPS + op + wl_mix(key));
}

static void work(struct wl_worker *w)
{
	struct tally *t = &tallies[w->id];
	uint64_t first, n, before, next_timed = 0;

	while ((n = wl_chunk(w, &first))) {
		for (uint64_t i = first; i < first + n; i++) {
			if (!latency_every || i < next_timed) {
				operate(w, t, i);
				continue;
			}
			next_timed = i + latency_every;
			before = wl_now();
			operate(w, t, i);
			wl_note(w->latency, wl_now() - before);
		}
	}
}

/* ---- start and end ---- */

static void check(void)
{
	if (value_size % 64)
		tg_die(TG_EXIT_USAGE, "--value: %llu is not a multiple of 64", (unsigned long long)value_size);
	mix = mixes[mix_number];
	if (read_percent <= 100)
		mix.read_percent = (unsigned int)read_percent;
	else
		read_percent = mix.read_percent;
}

static uint64_t divisor(uint64_t x, uint64_t y)
{
	return y ? divisor(y, x % y) : x;
}

static void load(uint64_t key)
{
	struct entry *e = find(key, true);
	uint64_t cursor = key / 64;

	e->slot = take_slot(&cursor);
	e->version = 1;
	write_value(value_at(e->slot), key, 1);
}

static void prepare(void)
{
	/* A slot costs its value, 4/3 index entries and a bit. */
	nr_slots = (wl_left() - 4 * WL_PAGE) * 24 / (value_size * 24 + 24 * 16 * 4 / 3 + 3);
	nr_records = nr_slots * fill_percent / 100;
	if (nr_records < wl.threads * 64 || nr_slots >= UINT32_MAX)
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are %llu values; from %llu up to 2^32 can be used",
		       (unsigned long long)wl.size, (unsigned long long)nr_records,
		       (unsigned long long)wl.threads * 64);
	/* Updates need free slots to choose from, and each thread holds one more for a moment. */
	max_inserts = (nr_slots - nr_records) * 15 / 16;
	max_inserts -= max_inserts < wl.threads ? max_inserts : wl.threads;
	capacity = nr_slots * 4 / 3;
	slots = wl_take(nr_slots * value_size, "the log");
	table = wl_take(capacity * sizeof(*table), "the index");
	used = wl_take((nr_slots + 63) / 64 * 8, "the map of the log");
	for (uint64_t slot = nr_slots; slot % 64; slot++)
		used[slot / 64] |= 1ull << slot % 64;
	for (unsigned int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&stripes[i], NULL);
	for (unsigned int t = 0; t < wl.threads; t++) {
		wl_workers[t].latency = wl_histogram_new();
		tallies[t].cursor = (nr_slots + 63) / 64 * t / wl.threads;
	}
	wl_zipf_make(&zipf, nr_records, theta_milli);
	scatter = (nr_records * 618 / 1000) | 1;
	while (divisor(nr_records, scatter) != 1)
		scatter += 2;
	for (uint64_t key = 0; key < nr_records; key++)
		load(key);
}

static uint64_t unit(void)
{
	return mix.read == SCAN ? nr_records / 32 : nr_records;
}

static uint64_t count_used(void)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < (nr_slots + 63) / 64; i++)
		count += (uint64_t)__builtin_popcountll(used[i]);
	return count - ((64 - nr_slots % 64) % 64);
}

static void verify(void)
{
	uint64_t keys = 0, versions = 0, inserted = 0, writes = 0;

	for (uint64_t i = 0; i < capacity; i++) {
		const struct entry *e = &table[i];

		if (!e->key1)
			continue;
		keys++;
		versions += e->version;
		if (e->slot >= nr_slots || !value_is_right(value_at(e->slot), e->key1 - 1, e->version))
			wl_wrong("key %llu: its value is not version %u of it", (unsigned long long)e->key1 - 1,
				 e->version);
	}
	for (unsigned int t = 0; t < wl.threads; t++) {
		inserted += tallies[t].inserted;
		writes += wl_workers[t].writes;
		if (wl_workers[t].wrong)
			wl_wrong("thread %u: %llu operations failed or met a wrong value", t,
				 (unsigned long long)wl_workers[t].wrong);
	}
	if (keys != nr_records + inserted)
		wl_wrong("the index has %llu keys instead of %llu", (unsigned long long)keys,
			 (unsigned long long)(nr_records + inserted));
	if (versions != nr_records + writes)
		wl_wrong("all versions make %llu and %llu were written", (unsigned long long)versions,
			 (unsigned long long)(nr_records + writes));
	if (count_used() != keys)
		wl_wrong("%llu slots are in use for %llu keys", (unsigned long long)count_used(),
			 (unsigned long long)keys);
}

static void sabotage(const char *kind)
{
	uint64_t key = scatter;		/* the second most wanted */
	struct entry *e = find(key, false);

	if (!strcmp(kind, "version")) {
		/* As if a write of index and value had been lost together: only the sum of versions tells. */
		write_value(value_at(e->slot), key, --e->version);
	} else if (!strcmp(kind, "swap")) {
		const struct entry *other = find(0, false);

		memcpy(value_at(e->slot), value_at(other->slot), value_size);
	} else {
		uint64_t byte = HEADER_WORDS * 8 + wl_below(wl_hash(99, 0), value_size - HEADER_WORDS * 8);

		((char *)value_at(e->slot))[byte] ^= 1;
	}
}

static void report(void)
{
	uint64_t sum[NR_OPS] = { 0 }, by_log2[64] = { 0 }, inserted = 0;

	for (unsigned int t = 0; t < wl.threads; t++) {
		for (unsigned int op = 0; op < NR_OPS; op++)
			sum[op] += tallies[t].ops[op];
		for (unsigned int i = 0; i < 64; i++)
			by_log2[i] += tallies[t].by_log2[i];
		inserted += tallies[t].inserted;
	}
	printf("  \"records\": %llu,\n  \"inserted\": %llu,\n  \"slots\": %llu,\n  \"op_counts\": {",
	       (unsigned long long)nr_records, (unsigned long long)inserted, (unsigned long long)nr_slots);
	for (unsigned int op = 0; op < NR_OPS; op++)
		printf("%s\"%s\": %llu", op ? ", " : "", op_names[op], (unsigned long long)sum[op]);
	printf("},\n  \"ranks_by_log2\": [");
	for (unsigned int i = 0; i < 64 && 1ull << i <= nr_records; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)by_log2[i]);
	printf("],\n");
	wl_print_latency("latency_ns");
}

static const struct wl_option options[] = {
	{ "mix", WL_CHOICE, &mix_number, 0, 0, mix_names, "YCSB's core workloads", false },
	{ "value", WL_SIZE, &value_size, 64, 1u << 20, NULL, "bytes of a value with its header", false },
	{ "theta", WL_NUMBER, &theta_milli, 0, 2000, NULL, "skew in thousandths; 0 is uniform", false },
	{ "read-percent", WL_NUMBER, &read_percent, 0, 100, NULL,
	  "share of reads (or scans) instead of the mix's own", false },
	{ "scan-length", WL_NUMBER, &scan_length, 1, 10000, NULL, "longest scan", false },
	{ "fill-percent", WL_NUMBER, &fill_percent, 1, 90, NULL, "share of the slots that are loaded", false },
	{ "latency-every", WL_NUMBER, &latency_every, 0, 1000000, NULL,
	  "time one in so many operations; 0: none", false },
	{ 0 },
};

static const struct wl_workload kvzipf = {
	.name = "kvzipf",
	.purpose = "A key-value store under YCSB's mixes with zipfian keys; an operation is one of YCSB's.",
	.options = options,
	.defaults = { .iterations = 8 },
	.check = check,
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sabotage = sabotage,
	.verify = verify,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&kvzipf, argc, argv);
}
