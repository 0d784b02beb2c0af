// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policy calls from 32-bit programs: the same struct, mask and weights as
 * from 64-bit ones.  Built for i386 and for x32, without a C library: neither has
 * one on most machines.
 *
 * lab: topology=dram-cxl timeout=30s debug=yes abi=i386,x32
 */
#include <stddef.h>
#include <stdint.h>

#define MPOL_WEIGHTED	6
#define MPOL_F_NODE	1
#define MPOL_F_ADDR	2
#define PAGE		4096
#define PAGES		120

#define EINVAL		22
#define E2BIG		7
#define EFAULT		14
#define ERANGE		34

#if defined(__i386__)
enum { WRITE = 4, EXIT = 1, MMAP = 192, GET_OLD = 275 };
#elif defined(__x86_64__) && defined(__ILP32__)
#define NR(call)	(0x40000000 + (call))
enum { WRITE = 1, EXIT = 60, MMAP = 9, GET_OLD = 239 };
#else
#error "only for i386 and x32"
#endif
enum { SET = 960, GET = 961, BIND = 962 };

/* struct mpol_param of <linux/mempolicy2.h> */
struct param {
	uint16_t mode;
	uint16_t mode_flags;
	int32_t home_node;
	uint16_t pol_maxnodes;
	uint8_t resv[6];
	uint64_t pol_nodes;
	uint64_t il_weights;
} __attribute__((packed, aligned(8)));

/* As from 64-bit programs, but from a 32-bit one: else it does not compile. */
struct assumptions {
	int struct_size : sizeof(struct param) == 32 ? 1 : -1;
	int pointer_size : sizeof(void *) == 4 ? 1 : -1;
};

static long call6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;

#ifdef __i386__
	/* The sixth is in ebp, which the compiler does not give away. */
	long args[2] = { nr, f };

	asm volatile("pushl %%ebp\n\t"
		     "movl 4(%%eax), %%ebp\n\t"
		     "movl (%%eax), %%eax\n\t"
		     "int $0x80\n\t"
		     "popl %%ebp"
		     : "=a" (ret)
		     : "a" (args), "b" (a), "c" (b), "d" (c), "S" (d), "D" (e)
		     : "memory");
#else
	register long long r10 asm("r10") = (unsigned long)d;
	register long long r8 asm("r8") = (unsigned long)e;
	register long long r9 asm("r9") = (unsigned long)f;
	long long wide;

	asm volatile("syscall"
		     : "=a" (wide)
		     : "a" ((long long)NR(nr)),
		       "D" ((long long)(unsigned long)a),
		       "S" ((long long)(unsigned long)b),
		       "d" ((long long)(unsigned long)c),
		       "r" (r10), "r" (r8), "r" (r9)
		     : "rcx", "r11", "memory");
	ret = wide;
#endif
	return ret;
}

#define CALL(nr, a, b, c, d, e) \
	call6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

/* ---- output ---- */

static int number, failures;

static void put(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	CALL(WRITE, 1, text, n, 0, 0);
}

static void put_number(long n)
{
	char text[12], *p = text + sizeof(text);

	if (n < 0)
		put("-");
	n = n < 0 ? -n : n;
	p--;
	*p = '\0';
	do {
		p--;
		*p = '0' + n % 10;
		n /= 10;
	} while (n);
	put(p);
}

/* One test: @have is what it should be. */
static void is(const char *what, long have, long want)
{
	put(have == want ? "ok " : "not ok ");
	put_number(++number);
	put(" ");
	put(what);
	put("\n");
	if (have == want)
		return;
	failures++;
	put("# it is ");
	put_number(have);
	put(", not ");
	put_number(want);
	put("\n");
}

/* ---- policies ---- */

static struct param param;
static uint64_t mask;
static uint8_t weights[64];

static struct param *policy(uint8_t node0, uint8_t node1)
{
	unsigned int i;

	param = (struct param){
		.mode = MPOL_WEIGHTED,
		.pol_maxnodes = 64,
		.pol_nodes = (uintptr_t)&mask,
		.il_weights = (uintptr_t)weights,
	};
	mask = 3;
	for (i = 0; i < sizeof(weights); i++)
		weights[i] = 0;
	weights[0] = node0;
	weights[1] = node1;
	return &param;
}

/* Weights of the thread or at @addr as one number: 5:1 is 501. */
static long weights_at(const void *addr)
{
	long ret;

	policy(0, 0);
	mask = 0;
	param.mode = 0;
	ret = CALL(GET, &param, sizeof(param), addr, addr ? MPOL_F_ADDR : 0,
		   0);
	if (ret)
		return ret;
	return param.mode == MPOL_WEIGHTED && mask == 3 ?
	       weights[0] * 100 + weights[1] : -1;
}

static long pages_on(char *area, int node)
{
	long i, n = 0;
	int where;

	for (i = 0; i < PAGES; i++) {
		area[i * PAGE] = 1;
		where = -1;
		CALL(GET_OLD, &where, 0, 0, area + i * PAGE,
		     MPOL_F_NODE | MPOL_F_ADDR);
		n += where == node;
	}
	return n;
}

static char *map(void)
{
	/* read and write; private and anonymous */
	return (char *)call6(MMAP, 0, PAGES * PAGE, 3, 0x22, -1, 0);
}

static void errors(void)
{
	static struct {
		struct param param;
		uint8_t tail[8];
	} longer;

	is("a size of 31", CALL(SET, policy(5, 1), 31, 0, 0, 0), -EINVAL);
	is("a size of two pages", CALL(SET, &param, 2 * PAGE, 0, 0, 0),
	   -E2BIG);
	longer.param = *policy(5, 1);
	is("a longer struct", CALL(SET, &longer, sizeof(longer), 0, 0, 0), 0);
	longer.tail[7] = 1;
	is("a longer struct that is not 0",
	   CALL(SET, &longer, sizeof(longer), 0, 0, 0), -E2BIG);
	policy(5, 1)->resv[5] = 1;
	is("a reserved byte", CALL(SET, &param, sizeof(param), 0, 0, 0),
	   -EINVAL);
	policy(5, 1)->pol_nodes |= 1ULL << 40;
	is("a pointer above 4 GiB", CALL(SET, &param, sizeof(param), 0, 0, 0),
	   -EFAULT);
	policy(5, 1)->pol_maxnodes = 1;
	is("too little room", CALL(GET, &param, sizeof(param), 0, 0, 0),
	   -ERANGE);
	is("what is needed", param.pol_maxnodes, 2);
}

static void body(void)
{
	char *first = map(), *second = map();

	put("TAP version 13\n");
	if (CALL(GET, NULL, 0, 0, 0, 0) != -EINVAL) {
		put("1..0 # SKIP no memory policy calls with weights\n");
		CALL(EXIT, 4, 0, 0, 0, 0);
	}
	put("1..15\n");
	is("set", CALL(SET, policy(5, 1), sizeof(param), 0, 0, 0), 0);
	is("get", weights_at(NULL), 501);
	is("pages of the task", pages_on(first, 0), PAGES / 6 * 5);
	is("mbind", CALL(BIND, second, PAGES * PAGE, policy(1, 3),
			 sizeof(param), 0), 0);
	is("get at an address", weights_at(second), 103);
	is("pages of the range", pages_on(second, 0), PAGES / 4);
	errors();
	is("what was set is still there", weights_at(NULL), 501);
	CALL(EXIT, failures ? 1 : 0, 0, 0, 0, 0);
}

/* The stack is aligned for whoever is called, as the ABI wants it. */
void start(void);
#ifdef __i386__
asm(".globl _start\n_start:\n\txorl %ebp, %ebp\n\tandl $-16, %esp\n\tcall start\n");
#else
asm(".globl _start\n_start:\n\txorl %ebp, %ebp\n\tandq $-16, %rsp\n\tcall start\n");
#endif

__attribute__((used)) void start(void)
{
	body();
}
