/* SPDX-License-Identifier: GPL-2.0 */
/* What the machine holds between two test programs: taken, and compared. */
#ifndef STATE_H
#define STATE_H

struct state;

struct state *state_settled(const struct state *before);
void state_differences(const struct state *before, const struct state *after, const char *prefix);
void state_free(struct state *state);

#endif /* STATE_H */
