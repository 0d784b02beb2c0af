/* SPDX-License-Identifier: GPL-2.0 */
/* Memory policies of regular files: internal interfaces. */
#ifndef _MM_FILE_POLICY_H
#define _MM_FILE_POLICY_H

#include <linux/atomic.h>

#ifdef CONFIG_MAPPED_FILE_POLICY_DEBUG
extern atomic_t file_policy_files;

static inline void file_policy_counted(int files)
{
	atomic_add(files, &file_policy_files);
}
#else
static inline void file_policy_counted(int files) { }
#endif

#endif /* _MM_FILE_POLICY_H */
