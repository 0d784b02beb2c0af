/* SPDX-License-Identifier: GPL-2.0 */
/* Memory policies of regular files: what its own files share. */
#ifndef _MM_FILE_POLICY_H
#define _MM_FILE_POLICY_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/types.h>

/**
 * enum file_policy_sabotage - bits of file_policy/sabotage in debugfs
 * @FILE_SAB_DROP: policies outlive their inode
 * @FILE_SAB_READER: who may only read a file can give it a policy
 * @FILE_SAB_INDEX: a policy for one part holds for all of a file
 */
enum file_policy_sabotage {
	FILE_SAB_DROP,
	FILE_SAB_READER,
	FILE_SAB_INDEX,
};

#ifdef CONFIG_MAPPED_FILE_POLICY_SABOTAGE
extern u32 file_policy_sabotage_mask;
extern atomic_t file_policy_files;

static inline bool file_policy_sabotaged(enum file_policy_sabotage what)
{
	return READ_ONCE(file_policy_sabotage_mask) & BIT(what);
}

static inline void file_policy_counted(int files)
{
	atomic_add(files, &file_policy_files);
}
#else
static inline bool file_policy_sabotaged(enum file_policy_sabotage what)
{
	return false;
}

static inline void file_policy_counted(int files) { }
#endif

#endif /* _MM_FILE_POLICY_H */
