// SPDX-License-Identifier: LGPL-2.1-only
/* libterrace: policies as objects, and as text. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

int terrace_policy_new(struct terrace_policy **out, enum terrace_mode mode)
{
	struct terrace_policy *policy;

	if (mode < TERRACE_DEFAULT || mode > TERRACE_WEIGHTED_INTERLEAVE)
		return -EINVAL;
	policy = calloc(1, sizeof(*policy));
	if (!policy)
		return -ENOMEM;
	policy->mode = mode;
	policy->home = -1;
	*out = policy;
	return 0;
}

void terrace_policy_free(struct terrace_policy *policy)
{
	free(policy);
}

int terrace_policy_set_node(struct terrace_policy *policy, unsigned int node,
			    unsigned int weight)
{
	if (node >= MAX_NODES || weight > MAX_WEIGHT)
		return -ERANGE;
	if (weight && policy->mode != TERRACE_WEIGHTED_INTERLEAVE)
		return -EINVAL;
	policy->nodes[node / 64] |= 1ULL << node % 64;
	policy->weights[node] = weight;
	return 0;
}

int terrace_policy_set_flags(struct terrace_policy *policy,
			     unsigned int mode_flags)
{
	const unsigned int all = TERRACE_F_STATIC_NODES |
				 TERRACE_F_RELATIVE_NODES |
				 TERRACE_F_NUMA_BALANCING;

	if (mode_flags & ~all)
		return -EINVAL;
	policy->flags = mode_flags;
	return 0;
}

int terrace_policy_set_home(struct terrace_policy *policy, unsigned int node)
{
	if (node >= MAX_NODES)
		return -ERANGE;
	if (policy->mode != TERRACE_BIND &&
	    policy->mode != TERRACE_PREFERRED_MANY)
		return -EOPNOTSUPP;
	policy->home = node;
	return 0;
}

enum terrace_mode terrace_policy_mode(const struct terrace_policy *policy)
{
	return policy->mode;
}

unsigned int terrace_policy_flags(const struct terrace_policy *policy)
{
	return policy->flags;
}

int terrace_policy_home(const struct terrace_policy *policy)
{
	return policy->home;
}

int terrace_policy_has_node(const struct terrace_policy *policy,
			    unsigned int node)
{
	return node < MAX_NODES && policy->nodes[node / 64] >> node % 64 & 1;
}

unsigned int terrace_policy_weight(const struct terrace_policy *policy,
				   unsigned int node)
{
	return node < MAX_NODES ? policy->weights[node] : 0;
}

unsigned int terrace_policy_nodes(const struct terrace_policy *policy)
{
	unsigned int node;

	for (node = MAX_NODES; node; node--)
		if (terrace_policy_has_node(policy, node - 1))
			break;
	return node;
}

/* Do any weights differ from 0, the global ones? */
int terrace_has_weights(const struct terrace_policy *policy)
{
	unsigned int node;

	for (node = 0; node < MAX_NODES; node++)
		if (policy->weights[node])
			return 1;
	return 0;
}

/* A number at *@text, which is moved behind it; -EINVAL, -ERANGE. */
static int read_number(const char **text, unsigned int limit,
		       unsigned int *number)
{
	unsigned int n = 0;

	if (**text < '0' || **text > '9')
		return -EINVAL;
	for (; **text >= '0' && **text <= '9'; (*text)++) {
		n = n * 10 + (**text - '0');
		if (n > limit)
			return -ERANGE;
	}
	*number = n;
	return 0;
}

/* One part, "N", "N-M", "N=W" or "N-M=W" */
static int read_part(struct terrace_policy *policy, const char **text)
{
	unsigned int from, to, weight = 0;
	int ret = read_number(text, MAX_NODES - 1, &from);

	to = from;
	if (!ret && **text == '-') {
		(*text)++;
		ret = read_number(text, MAX_NODES - 1, &to);
	}
	if (!ret && to < from)
		ret = -EINVAL;
	if (!ret && **text == '=') {
		(*text)++;
		ret = read_number(text, MAX_WEIGHT, &weight);
	}
	for (; !ret && from <= to; from++) {
		if (terrace_policy_has_node(policy, from))
			ret = -EINVAL;
		else
			ret = terrace_policy_set_node(policy, from, weight);
	}
	return ret;
}

int terrace_policy_parse(struct terrace_policy **out, const char *text)
{
	struct terrace_policy *policy;
	int ret = terrace_policy_new(&policy, TERRACE_WEIGHTED_INTERLEAVE);

	if (ret)
		return ret;
	for (;;) {
		ret = read_part(policy, &text);
		if (ret || !*text)
			break;
		if (*text++ != ',') {
			ret = -EINVAL;
			break;
		}
	}
	if (ret)
		terrace_policy_free(policy);
	else
		*out = policy;
	return ret;
}
