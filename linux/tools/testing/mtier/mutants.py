#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Sabotage policy.c, history.c, place.c, pace.c, forecast.c, working_set.c and bandwidth.c one line at a time.

Each time some test has to fail.

Called by `make mutants`, which hands in the compiler and the compiled tests:

    mutants.py --source FILE --source FILE --out DIR --cc "CC FLAGS" TEST.o...

Each mutant is a name and an edit of one place.  An edit that matches no place,
or more than one, is an error: the list is to follow the code.  Exit code: 0 if
every mutant was caught, 1 if one survived, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 20


@dataclass(frozen=True)
class Mutant:
    """One way to break the policy: replace `old`, found exactly once, by `new`."""

    name: str
    old: str
    new: str


MUTANTS = [
    # bucket
    Mutant("pay time twice", "if (now_ns > b->stamp_ns) {", "if (now_ns != b->stamp_ns) {"),
    Mutant("pay the same time for ever", "b->stamp_ns = now_ns;\n\t}", ";\n\t}"),
    Mutant("save without end", "min_t(u64, burst, BUCKET_MAX)", "BUCKET_MAX"),
    Mutant("earn for ever", "BUCKET_NS_MAX),", "U64_MAX),"),
    Mutant("take any rate", "rate = min_t(u64, rate, BUCKET_MAX);", ";"),
    Mutant("owe without end", "b->tokens = max_t(s64, b->tokens, -BUCKET_MAX);", ";"),
    Mutant("do not take tokens", "b->tokens -= min_t(u64, bytes, BUCKET_MAX);", ";"),
    Mutant(
        "wait too short",
        "mul_u64_u64_div_u64(owed, NSEC_PER_SEC, rate) + 1",
        "mul_u64_u64_div_u64(owed, NSEC_PER_SEC, rate)",
    ),
    Mutant("wait a second", "return owed >= rate ? NSEC_PER_SEC :", "return owed ? NSEC_PER_SEC :"),
    # picker
    Mutant("take the same turn again", "*turn += PICK_STEP;", ";"),
    Mutant("step by a half", "0x9e3779b9U", "0x80000000U"),
    Mutant("pick who has no weight", "if (at < weights[i])", "if (at <= weights[i])"),
    Mutant("do not go on", "at -= weights[i];", ";"),
    Mutant("never decay", "weights[i] /= 2;", ";"),
    Mutant("overflow a weight", "while (weights[slot] > U32_MAX - amount) {", "while (0) {"),
    Mutant("lose the small", "weight * whole, sum), 1)", "weight * whole, sum), 0)"),
    Mutant("go by history alone", "mix_share(cpu_threads[i], threads, whole)", "0"),
    Mutant("go by threads alone", "mix_share(top_accesses[i], accesses, whole) +", "0 +"),
    # history: independent pages
    Mutant("pages of a range are independent", "min_t(u64, nr, MTIER_LARGE_PAGES) - 1) * r_q8;", "0 * r_q8);"),
    Mutant("no errors of the correlation", "sum_sat(part, error)", "part + 0 * error"),
    Mutant("idle ranges are certain", "if (together_known(&t, looks)) {", "if (1) {"),
    Mutant("no range is known", "if (together_known(&t, looks)) {", "if (0) {"),
    Mutant("one scan is enough", "return looks > 1 &&", "return"),
    Mutant("unknown ranges are independent", "r_q8 = together_q8(t);", "r_q8 = 0;"),
    Mutant("unknown ranges are no evidence", "e->unsure[rank][c] += pages[c];", ";"),
    Mutant("all unknown pages are in one range", "e->unsure_ranges[rank]++;", ";"),
    Mutant(
        "a tier that is left out is evidence",
        "memset(e->alone.pages_q8[rank], 0, sizeof(e->alone.pages_q8[rank]));",
        ";",
    ),
    Mutant("a tier that is left out is unknown", "memset(e->unsure[rank], 0, sizeof(e->unsure[rank]));", ";"),
    Mutant(
        "to leave out a tier leaves out all",
        "memset(e->alone.pages_q8[rank], 0, sizeof(e->alone.pages_q8[rank]));",
        "memset(e->alone.pages_q8, 0, sizeof(e->alone.pages_q8));",
    ),
    Mutant(
        "one evidence for all slower tiers",
        "add_alone(e->alone.pages_q8[rank],",
        "add_alone(e->alone.pages_q8[min_t(u32, rank, MTIER_LOW)],",
    ),
    Mutant(
        "one number of idle ranges for all slower tiers",
        "e->unsure_ranges[rank]++;",
        "e->unsure_ranges[min_t(u32, rank, MTIER_LOW)]++;",
    ),
    Mutant(
        "idle pages of all slower tiers together",
        "e->unsure[rank][c] += pages[c];",
        "e->unsure[min_t(u32, rank, MTIER_LOW)][c] += pages[c];",
    ),
    Mutant("pages are never forgotten", "kept(t->pages, keep, most", "kept(t->pages, 1, 1"),
    Mutant("their variance is never forgotten", "kept(t->within_q8, keep, most", "kept(t->within_q8, 1, 1"),
    Mutant("chance is never forgotten", "kept(t->chance_q8, keep, most", "kept(t->chance_q8, 1, 1"),
    Mutant("independent pages are never forgotten", "[rank][c], keep, most,", "[rank][c], 1, 1,"),
    Mutant("independent pages outlive the counts", "memset(p->alone, 0, sizeof(p->alone));", ";"),
    Mutant("the correlation outlives the counts", "p->together = (struct mtier_together) { };", ";"),
    Mutant("without ranges nothing is known", "(u64)p->hist[looks].pages[rank][c] << Q8_BITS;", "0;"),
    Mutant("few idle pages are certain", "q * alone + Q8 * MTIER_Q16, alone + 2 * Q8", "q, 1"),
    # place: what a count is worth
    Mutant("a rate too high", "#define LN2_Q16		45426U", "#define LN2_Q16		65536U"),
    Mutant("rates beyond what can be told", "min_t(u32, q, Q_MAX)", "min_t(u32, q, MTIER_Q16 - 1)"),
    Mutant("bursts add up for ever", "(u64)*n * keep / most", "(u64)*n"),
    Mutant("forget former bursts", "(u64)*n * keep / most", "0 * keep"),
    Mutant("as many pages of folios", "LARGE_FOLIOS * MTIER_LARGE_PAGES);", "MTIER_BURST_PAGES);"),
    Mutant("believe any look", "if (!looks || looks > MTIER_LOOKS_MOST)", "if (looks > MTIER_LOOKS_MOST)"),
    Mutant("count hits once", "((c + 1) * more << LOOK_BITS)", "(more << LOOK_BITS)"),
    Mutant("count misses once", "((looks - c) * same << LOOK_BITS)", "(same << LOOK_BITS)"),
    Mutant("let shares fall", "if (a->hit * b->miss < b->hit * a->miss)", "if (1)"),
    Mutant("take all counts together", "if (a->hit * b->miss < b->hit * a->miss)", "if (0)"),
    Mutant("errors as of few", "weight += div64_u64(", "weight = div64_u64("),
    Mutant("no errors", "return div64_u64(likely * (", "return 0 & div64_u64(likely * ("),
    Mutant("judge by one look less", "((n - c) * q[same] + c * q[less]) / n", "q[less]"),
    Mutant("judge by one look more", "((n - c) * q[same] + c * q[less]) / n", "q[same]"),
    Mutant(
        "one histogram for both",
        "group_shares(p->hist[n].pages[g], n,",
        "group_shares(p->hist[n].pages[0], n,",
    ),
    Mutant("a side unseen is known", "\tif (!all)\n\t\treturn false;", "\tif (!all)\n\t\tall = 1;"),
    Mutant("large samples overflow", "while (pages >> shift > SAMPLE_MAX)", "while (0)"),
    # place: who changes places
    Mutant("no errors of who comes", "q - min_t(u32, q, se * ERRORS_X2 / 2)", "q + 0 * se"),
    Mutant("no errors of who goes", "q + se * ERRORS_X2 / 2", "q + 0 * se"),
    Mutant("saturation is not said", "victim_q >= SATURATED ?", "victim_q > MTIER_Q16 ?"),
    Mutant("saturated at any distance", "p->tau_ns <= MTIER_TAU_MIN_NS && victim_q", "victim_q"),
    Mutant("nine of ten are saturation", "(MTIER_Q16 * 19 / 20)", "(MTIER_Q16 * 17 / 20)"),
    Mutant("exchange what is alike", "if (low_rate(w, t, g) * RATIO_DEN <= victim.cold * RATIO_NUM)", "if (0)"),
    Mutant("exchange at any cost", "if (*gain_ns < cost)", "if (0)"),
    Mutant("one move for two", "out->cost = move_ns(m, v);", ";"),
    Mutant("a folio is all in use", "(is_large(g) ? 0 : MTIER_LARGE_BITS)", "MTIER_LARGE_BITS"),
    Mutant(
        "a folio goes as if one page was used",
        "top_found(w, t, g) << (is_large(low) ? 0 : MTIER_LARGE_BITS)",
        "top_found(w, t, g) << (is_large(g) ? 0 : MTIER_LARGE_BITS)",
    ),
    Mutant(
        "a folio gains for all its pages", "(is_large(g) ? LARGE_ACCESSES : MTIER_LARGE_PAGES)", "MTIER_LARGE_PAGES"
    ),
    Mutant("a folio moves page by page", "m->move_ns / LARGE_MOVE", "m->move_ns"),
    Mutant("single pages make way for a folio", "(is_large(low) && !is_large(g)) ||", ""),
    Mutant("shares as of pages", "is_large(g) ? MTIER_LARGE_BITS : 0,", "0,"),
    Mutant("errors as of pages", "<< Q8_BITS >> MTIER_LARGE_BITS :", "<< Q8_BITS :"),
    Mutant("the first victim is the best", "best == MTIER_GROUPS || rate < best_rate", "best == MTIER_GROUPS"),
    Mutant("any lower page is the hottest", "low_rate(w, t, g) > low_rate(w, t, best)", "1"),
    Mutant("a group that is over ends the plan", "t->over[g] = true;", "return false;"),
    Mutant("why as of folios", "!is_large(g) || *why == MTIER_PLAN_NOBODY", "1"),
    Mutant("what it costs is gained", "*gain_ns -= cost;", ";"),
    Mutant("ignore the limit", "while (t->limit) {", "while (1) {"),
    Mutant("ignore what is free", "if (!t->free && !choose_victim", "if (!choose_victim"),
    Mutant("take more than nobody maps", "nr = spare_take(&t, run.low_group, nr);", ";"),
    Mutant("unmapped pages are never used", "(tau << Q16_BITS) / max_t(u64, m->spare_ns, 1)", "0"),
    Mutant("unmapped pages leave for free", "out->cost = m->move_ns;", ";"),
    Mutant("unmapped pages leave last", "spare_rate(p, m, low) <= top_rate(w, t, v, low)", "0"),
    Mutant("unmapped pages leave first", "(v == MTIER_GROUPS ||\n\t\tspare_rate", "(1 ||\n\t\tspare_rate"),
    Mutant("any unmapped pages for a folio", "(is_large(low) ? t->whole : t->spare) &&", "t->spare &&"),
    Mutant(
        "a block is used as single pages are",
        "spare_found(p, m) << (is_large(low) ? 0 : MTIER_LARGE_BITS)",
        "spare_found(p, m) << MTIER_LARGE_BITS",
    ),
    Mutant("blocks are not used up", "t->whole -= is_large(low) ? nr : 0;", ";"),
    Mutant("pages of a block go twice", "t->whole = min_t(u64, t->whole, t->spare);", ";"),
    Mutant("idle pages into what is free", "return t->at_low[g] || !t->free;", "return true;"),
    Mutant("take more than is free", "nr = min_t(u64, nr, t.free);", ";"),
    Mutant("take victims twice", "*victims -= nr;", ";"),
    Mutant("promote twice", "*left -= nr;", ";"),
    Mutant(
        "the least used first",
        "t.at_low[g] = min_t(u32, w->looks, MTIER_LOOKS_MOST);",
        "t.at_low[g] = is_large(g) ? MTIER_LOOKS_MOST : 0;",
    ),
    Mutant(
        "the least used folio first",
        "t.at_low[g] = min_t(u32, w->looks, MTIER_LOOKS_MOST);",
        "t.at_low[g] = is_large(g) ? 0 : min_t(u32, w->looks, MTIER_LOOKS_MOST);",
    ),
    Mutant("pages to promote make room", ".top = *top,", ".top = *low,"),
    Mutant(
        "the last tier does not count",
        "for (rank = MTIER_LOW; rank < MTIER_RANKS; rank++)",
        "for (rank = MTIER_LOW; rank < MTIER_RANKS - 1; rank++)",
    ),
    Mutant(
        "ranges of the last tier are no evidence",
        "rank < MTIER_RANKS; rank++) {",
        "rank < MTIER_RANKS - 1; rank++) {",
    ),
    Mutant(
        "counts of the last tier are lost",
        "g < top + MTIER_RANKS; g++)\n\t\tfor (c = 0; c <= looks; c++) {",
        "g < top + MTIER_RANKS - 1; g++)\n\t\tfor (c = 0; c <= looks; c++) {",
    ),
    Mutant(
        "counts of the last tier add up for ever",
        "g < top + MTIER_RANKS; g++)\n\t\tfor (c = 0; c <= looks; c++)\n",
        "g < top + MTIER_RANKS - 1; g++)\n\t\tfor (c = 0; c <= looks; c++)\n",
    ),
    Mutant("gain of one page for all", "nr * gain_ns", "gain_ns"),
    # place: forecasts
    Mutant(
        "it lasts whatever is found",
        "sum += (age_end_ns(i) - start) * least",
        "sum += (age_end_ns(i) - start) * MTIER_Q16",
    ),
    Mutant("what comes back counts", "least = min_t(u32, least, left[i]);", "least = left[i];"),
    Mutant("chance counts", "if (left[i] < audit_chance(&p->audit[i]))", "if (!left[i])"),
    Mutant("an age begins with all", "prior * before", "prior * MTIER_Q16"),
    Mutant(
        "every age ends at once",
        "2 * MTIER_AUDIT_AGE_NS(age) : MTIER_HORIZON_NS",
        "2 * MTIER_AUDIT_AGE_NS(0) : MTIER_HORIZON_NS",
    ),
    Mutant("all are of the last age", "age_ns >= age_end_ns(i)", "true"),
    Mutant("old success excuses all", "if (sum->foretold > AUDIT_MOST)", "if (0)"),
    Mutant("gone for ever", "sum->foretold /= 2;", ";"),
    # place: early looks
    Mutant("used as often as is found", "told * mtier_place_factor_q8(p) >> 8", "told"),
    Mutant("what is used less saves nothing", "return max_t(u64, factor, EARLY_LEAST_Q8);", "return factor;"),
    Mutant("what is used less saves as much", "#define EARLY_LEAST_Q8\t64", "#define EARLY_LEAST_Q8\t256"),
    Mutant("one early look says all", "#define EARLY_PRIOR\t(4LL * MTIER_Q16)", "#define EARLY_PRIOR\t1LL"),
    Mutant("early is as good as late", "since_ns = min_t(u64, since_ns, tau_ns);", "since_ns = tau_ns;"),
    Mutant("late says more than late", "since_ns = min_t(u64, since_ns, tau_ns);", ";"),
    Mutant("found is found", "(s64)clamp_t(s32, hits, -1, 1) * MTIER_Q16", "(hits > 0) * MTIER_Q16"),
    Mutant("early looks count for ever", "if (max_t(s64, sum->foretold, sum->seen) > EARLY_MOST)", "if (0)"),
    Mutant("a fade leaves early looks", "audit_fade(&p->early);", ";"),
    # place: distance and number of looks
    Mutant("nobody hurries", "\n{\n\tp->share = share_cap(m, true);", "\n{\n\t(void)m;\n\t(void)p;"),
    Mutant(
        "a burst never ends early",
        "return total_gain_ns > mul_sat(spent_ns, 2) &&",
        "return 0 && total_gain_ns > mul_sat(spent_ns, 2) &&",
    ),
    Mutant("a burst ends before it has paid", "return total_gain_ns > mul_sat(spent_ns, 2) &&", "return"),
    Mutant("a long plan ends a burst", "return gain_ns && took_ns > p->tau_ns;", "return took_ns > p->tau_ns;"),
    Mutant("no burst is late", "return gain_ns && took_ns > p->tau_ns;", "return 0 && p;"),
    Mutant("looks without end", "if (looks >= MTIER_LOOKS_MOST)", "if (0)"),
    Mutant("one move pays back", "2ULL * max_t(u32, m->move_ns, 1)", "max_t(u32, m->move_ns, 1)"),
    Mutant("what is free is no room", "add_sat(top, m->free)", "top"),
    Mutant(
        "folios have no room", "add_sat(m->pages[MTIER_TOP], m->pages[MTIER_TOP + MTIER_LARGE])", "m->pages[MTIER_TOP]"
    ),
    Mutant(
        "the margin of one group",
        "!r->left[g] || (best < MTIER_GROUPS && at <= *q)",
        "!r->left[g] || best < MTIER_GROUPS",
    ),
    Mutant("the margin as of the sample", "mul_u64_u64_div_u64(m->pages[g],", "mul_u64_u64_div_u64(seen,"),
    Mutant("an idle margin", "rank_next(&r, &pages, &q) && q >= IDLE", "rank_next(&r, &pages, &q)"),
    Mutant("strays are the margin", "if (pages && pages >= used / STRAYS)", "if (pages)"),
    Mutant("strays without room are the margin", "used - room > used / STRAYS", "used - room"),
    Mutant("room for all", "if (used <= room)", "if (1)"),
    Mutant("room for none", "return used > room &&", "return 1 + 0 * room &&"),
    Mutant("as rare while nothing is in use", "margin ? 1 : MTIER_LOOKS_MOST", "1"),
    Mutant(
        "steer the wrong way",
        "tau = min_t(u64, p->tau_ns, MTIER_TAU_CAP_NS) * factor >> Q16_BITS",
        "tau = min_t(u64, p->tau_ns, MTIER_TAU_CAP_NS) * MTIER_Q16 / factor",
    ),
    Mutant("steer by any step", "clamp_t(u64, factor, MTIER_Q16 / 2, most)", "factor"),
    Mutant(
        "rarer at once", "u32 most = busy ? MTIER_Q16 * 5 / 4 : MTIER_Q16 * 2;", "u32 most = MTIER_Q16 * 2 + 0 * busy;"
    ),
    Mutant("rarer without end", "min_t(u64, tau, longest)", "tau + 0 * longest"),
    Mutant("closer though there is room", "room_for_all(m) ? TAU_START_NS", "false ? TAU_START_NS"),
    Mutant("no closer though there is none", "room_for_all(m) ? TAU_START_NS", "true ? TAU_START_NS"),
    Mutant("room for all but one is enough", "slow_pages(m) <= m->free;", "slow_pages(m) <= m->free + 1;"),
    Mutant("further at once when there is room", "clamp_t(u64, p->tau_ns, MTIER_TAU_MIN_NS,\n", "max_t(u64, 0,\n"),
    Mutant("one distance for all", "mtier_place_rate(q) * other_ns, tau_ns)", "mtier_place_rate(q) * tau_ns, tau_ns)"),
    Mutant("a coarse exponential", "12 * MTIER_Q16 + 6 * x + square", "12 * MTIER_Q16 + 6 * x"),
    Mutant("never at rest", "if (factor > MTIER_Q16 * 83 / 100 && factor < MTIER_Q16 * 6 / 5)", "if (0)"),
    Mutant("mix distances", "p->hist[n] = (struct mtier_counts) { 0 };", ";"),
    Mutant("no jitter", "((tau / 2) * (random >> Q16_BITS) >> Q16_BITS)", "tau / 4 + 0 * random"),
    Mutant(
        "no least burst",
        "max_t(u32, m->look_ns, 1)), least_pages(p, m));",
        "max_t(u32, m->look_ns, 1)), 0 * least_pages(p, m));",
    ),
    Mutant(
        "as small as at rest at any share",
        "mul_sat(p->share, NOTICE_NS)",
        "mul_sat(SHARE_MIN + 0 * p->share, NOTICE_NS)",
    ),
    Mutant(
        "small bursts where looks are cheap",
        "       MTIER_NOTICE_PAGES, MTIER_BURST_PAGES);",
        "       MTIER_NOTICE_PAGES, MTIER_NOTICE_PAGES);",
    ),
    Mutant(
        "large bursts at rest",
        "       MTIER_NOTICE_PAGES, MTIER_BURST_PAGES);",
        "       MTIER_BURST_PAGES, MTIER_BURST_PAGES);",
    ),
    Mutant("a look of the burst is free", "\t\t\t      MTIER_LOOKS_MOST + 1);", "\t\t\t      MTIER_LOOKS_MOST);"),
    Mutant("a flush takes no time", "scan_ns - min_t(u64, scan_ns, m->flush_ns)", "scan_ns"),
    Mutant("a long flush for few pages", "min_t(u64, scan_ns, m->flush_ns), m->flush_ns);", "0, 0 * m->flush_ns);"),
    Mutant("a flush takes no time of a large burst", "cpu_ns - min_t(u64, cpu_ns, m->flush_ns)", "cpu_ns"),
    Mutant("pages pay for the flush", "cost->ns - fixed_ns(cost)", "cost->ns - 0 * fixed_ns(cost)"),
    Mutant("all flushes are one", "min_t(u32, cost->scans, cost->flushes)", "cost->flushes"),
    Mutant("the first flush is a quarter", "m->flush_ns = m->flush_ns ? div", "m->flush_ns = 1 ? div"),
    Mutant("the last flush is the mean", "div_u64(3ULL * m->flush_ns + now + 2, 4) : now", "now : now"),
    Mutant("no flush is a short flush", "\tif (!cost->flushes)\n\t\treturn;", ""),
    Mutant("flushes cost as long as they waited", "cost->flushes), FLUSH_MAX_NS);", "cost->flushes), U32_MAX);"),
    Mutant("credit is for bursts without a flush", "m->flush_ns / MTIER_BURST_PAGES, 1)", "0, 1)"),
    Mutant(
        "a small burst counts as a whole one",
        "weight = min_t(u64, cost->ptes, MTIER_BURST_PAGES)",
        "weight = MTIER_BURST_PAGES",
    ),
    Mutant(
        "a large burst counts without end",
        "weight = min_t(u64, cost->ptes, MTIER_BURST_PAGES)",
        "weight = cost->ptes",
    ),
    Mutant(
        "the last look is the mean",
        "m->look_ns = div_u64((u64)m->look_ns * (2 * MTIER_BURST_PAGES - weight) +\n"
        "\t\t\t     now * weight + MTIER_BURST_PAGES, 2 * MTIER_BURST_PAGES);",
        "m->look_ns = now + 0 * weight;",
    ),
    Mutant(
        "looks cost as long as they waited",
        "clamp_t(u64, div64_u64(cost->ns - fixed_ns(cost), cost->ptes), 1, LOOK_MAX_NS)",
        "div64_u64(cost->ns - fixed_ns(cost), cost->ptes)",
    ),
    Mutant("look more for nothing", "share /= 2;", ";"),
    Mutant("more than allowed", "m->share_most ?: SHARE_MAX", "SHARE_MAX + 0 * m->share_most"),
    Mutant("no less than it takes to notice", "min_t(u32, SHARE_MIN, most), most)", "SHARE_MIN, most)"),
    Mutant("look no more when it pays", "share = min_t(u32, share, SHARE_MAX) * 4;", ";"),
    Mutant("look no more when it pays a lot", "share = most;", ";"),
    Mutant("stop looking", "clamp_t(u32, share, min_t(u32, SHARE_MIN, most), most)", "min_t(u32, share, most)"),
    Mutant("new memory brings nothing", "credit + brought, -cap", "credit + 0 * brought, -cap"),
    Mutant("without credit as with", "share_cap(m, p->credit_ns > 0)", "share_cap(m, true)"),
    Mutant(
        "save credit without end",
        "p->credit_ns = clamp_t(s64, credit + brought, -cap, cap);",
        "p->credit_ns = credit + brought;",
    ),
    Mutant("looks cost nothing", "+ saved - spent;", "+ saved;"),
    Mutant("what is saved pays for nothing", "spent_ns - paid_ns);", "spent_ns);"),
    Mutant("all that is saved pays for looks", "spent_ns, gain_ns / SAVED_PARTS)", "spent_ns, gain_ns)"),
    Mutant(
        "what is saved is credit",
        "min_t(u64, spent_ns, gain_ns / SAVED_PARTS)",
        "min_t(u64, 1000 * spent_ns, gain_ns / SAVED_PARTS)",
    ),
    Mutant("what would move saves as well", "if (!m->observe)", "if (1)"),
    Mutant("old use is forgotten at once", "p->pages = max_t(u64, all, p->pages -", "p->pages = max_t(u64, all, 0 *"),
    Mutant("old use is never forgotten", "if (all < p->pages)", "if (0)"),
    Mutant("forget more than there was", "u64 passed = min_t(u64, passed_ns, FORGET_NS);", "u64 passed = passed_ns;"),
    Mutant(
        "forget what is still in use", "p->pages = max_t(u64, all, p->pages -", "p->pages = max_t(u64, 0, p->pages -"
    ),
    Mutant("little new memory is much", "if (new <= all / MUCH_NEW)", "if (!new)"),
    Mutant("little new memory is forgotten", "\t\treturn 0;\n\tp->pages = all;", "\t\tnew = 0;\n\tp->pages = all;"),
    Mutant("new memory is new for ever", "\tp->pages = all;\n\treturn new;", "\treturn new;"),
    Mutant("look at new memory as before", "\tif (new)\n\t\tp->share = share_cap(m, true);", "\t(void)new;"),
    Mutant("no rest", "period - min_t(u64, period, burst_ns), longest)", "0 * period, longest)"),
    Mutant(
        "rest as if the burst took no time",
        "period - min_t(u64, period, burst_ns), longest)",
        "period, longest)",
    ),
    Mutant(
        "rest longer than a second, whatever is allowed",
        "share_cap(m, true)),\n\t\t\tREST_NS);",
        "p->share),\n\t\t\tREST_NS);",
    ),
    Mutant(
        "rest a second at most, whatever is allowed",
        "longest = max_t(u64, div_u64(mul_sat(spent_ns, MTIER_Q16), share_cap(m, true)),\n\t\t\tREST_NS);",
        "longest = REST_NS;",
    ),
    Mutant(
        "rest without end",
        "return min_t(u64, period - min_t(u64, period, burst_ns), longest);",
        "return period - min_t(u64, period, burst_ns);",
    ),
    # working sets
    Mutant(
        "all that was looked at is in use",
        "e.used = mul_u64_u64_div_u64(all, w->used, w->ranges);",
        "e.used = e.present;",
    ),
    Mutant(
        "a sample is all there is",
        "e.used = mul_u64_u64_div_u64(all, w->used, w->ranges);",
        "e.used = w->used >> MTIER_WSET_SHIFT;",
    ),
    Mutant("windows never fade", "u64 keep = KEEP - min_t(u64, ranges, KEEP);", "u64 keep = KEEP + 0 * ranges;"),
    Mutant("only the last window counts", "u64 keep = KEEP - min_t(u64, ranges, KEEP);", "u64 keep = 0 * ranges;"),
    Mutant("mix windows of any length", "if (!wset_alike(w, now.window_ns))", "if (0)"),
    Mutant(
        "begin anew with every length",
        "return window_ns / WINDOW_RATIO <= w->window_ns &&",
        "return window_ns == w->window_ns &&",
    ),
    Mutant(
        "the first window's length for all", "w->window_ns = wset_mean(", "w->window_ns = w->window_ns ?: wset_mean("
    ),
    Mutant(
        "the last window's time for all",
        "w->at_ns = wset_mean(w->at_ns, w->ranges, now.at_ns, ranges);",
        "w->at_ns = now.at_ns;",
    ),
    Mutant("a window without ranges counts", "if (!ranges)\n\t\treturn;", ";"),
    Mutant("ranges that are alike prove it", "u64 ranges = w->ranges + 2 * ONE;", "u64 ranges = w->ranges;"),
    Mutant("an error as of one range", "variance, ONE, w->ranges));", "variance, ONE, ONE));"),
    Mutant("no error once all were seen", "min_t(u32, seen, SEEN_MOST_Q16)", "min_t(u32, seen, 65536)"),
    Mutant(
        "as if none of many were seen", "return 65536 - min_t(u32, seen, SEEN_MOST_Q16);", "return 65536 + 0 * seen;"
    ),
    Mutant("used more than was looked at", "w.used = min_t(u64, w.used, w.looked);", ";"),
    Mutant("more pages than a range has", "(u64)w.ranges * w.range_pages);", "U64_MAX >> 32);"),
    # bandwidth: interleave weights
    Mutant("a page for the highest bandwidth", "(u64)r->mbps[i] * (r->weight[next] + 1) >", "(u64)r->mbps[i] * 1 >"),
    Mutant("a weight wraps", "r->weight[next] == U8_MAX)", "0)"),
    Mutant("rounds without end", "if (r->pages >= MPOL_ROUND_MAX)", "if (0)"),
    Mutant("a node without bandwidth takes part", "r->mbps[i] ? least : 0;", "least;"),
    Mutant("any node is the limit", "(u64)r->mbps[i] * r->weight[limit] <", "0 * (u64)r->mbps[i] * r->weight[limit] <"),
    Mutant("slower than the fastest alone", "return reach->product >= (u64)fastest * reach->weight &&", "return"),
    Mutant("lose a sixteenth", "#define LOSS_PARTS\t32", "#define LOSS_PARTS\t16"),
    Mutant("the longest round", "if (now.product * best.weight > best.product * now.weight) {", "if (1) {"),
    Mutant("stop too late", "while (round.pages < best_pages &&", "while (round.pages <= best_pages &&"),
    Mutant("an unknown node is as fast", "DIV_ROUND_UP(MPOL_ROUND_UNKNOWN, sum)", "1 + 0 * sum"),
    Mutant("stretch by one too few", "DIV_ROUND_UP(MPOL_ROUND_UNKNOWN, sum)", "MPOL_ROUND_UNKNOWN / sum"),
]


def places(mutant: Mutant, sources: dict[Path, str]) -> int:
    """Count the places of `sources`, file to text, that the edit of a mutant fits."""
    return sum(text.count(mutant.old) for text in sources.values())


def verdict(mutant: Mutant, sources: dict[Path, str], out: Path, cc: list[str], objects: list[str]) -> str:
    """Build and test one mutant of `sources`, file to text.

    Returns what caught it, or "" if it survived.  Raises ValueError if its
    edit does not fit the source or the result does not compile.
    """
    found = places(mutant, sources)
    if found != 1:
        raise ValueError(f"{mutant.name!r} matches {found} places of the source, wanted 1")
    stem = out / re.sub(r"\W+", "-", mutant.name)
    mutated = stem.with_suffix(".c")
    files = [str(mutated)]
    for path, text in sources.items():
        if mutant.old in text:
            mutated.write_text(text.replace(mutant.old, mutant.new))
        else:
            files.append(str(path))
    built = subprocess.run([*cc, "-o", str(stem), *files, *objects], capture_output=True, text=True, check=False)
    if built.returncode:
        raise ValueError(f"{mutant.name!r} does not compile:\n{built.stderr}")
    try:
        ran = subprocess.run([str(stem), "-x"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return "time limit"
    if ran.returncode == 0:
        return ""
    failed = re.findall(r"^    not ok \d+ (\S+)", ran.stdout, re.MULTILINE)
    return ", ".join(failed) or f"exit code {ran.returncode}"


def main() -> int:
    """Test all mutants, or those of --only; print one line for each and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, action="append", help="a file to break")
    parser.add_argument("--out", type=Path, required=True, help="folder for what is built")
    parser.add_argument("--only", type=Path, help="file with the names of the mutants to test, one a line")
    parser.add_argument("--cc", type=shlex.split, required=True, help="compiler with its options, one string")
    parser.add_argument("objects", nargs="+", help="compiled tests")
    args = parser.parse_args()
    chosen = MUTANTS
    if args.only:
        names = args.only.read_text().splitlines()
        if unknown := set(names) - {mutant.name for mutant in MUTANTS}:
            parser.error(f"--only {args.only}: there is no mutant {min(unknown)!r}")
        chosen = [mutant for mutant in MUTANTS if mutant.name in names]

    sources = {path: path.read_text() for path in args.source}
    args.out.mkdir(parents=True, exist_ok=True)
    survivors = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [(m, pool.submit(verdict, m, sources, args.out, args.cc, args.objects)) for m in chosen]
        for mutant, job in jobs:
            try:
                caught = job.result()
            except ValueError as error:
                print(f"error: {error}", file=sys.stderr)
                survivors += 1
                continue
            survivors += not caught
            print(f"{'caught  ' if caught else 'SURVIVED'}  {mutant.name:32}  {caught}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
