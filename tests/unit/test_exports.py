# SPDX-License-Identifier: GPL-2.0
"""What inlines of Linux headers call of ours is exported, or a distribution's modules do not link."""

from terrace.kernel import exports

HEADER = """
struct inode;
struct thing {
	int value;
};
DECLARE_STATIC_KEY_FALSE(thing_key);
extern int thing_level;
void __thing_open(struct inode *inode);
struct thing *__thing_of(int reason);

static inline bool thing_on(void)
{
	return static_branch_unlikely(&thing_key);
}

static inline int thing_open(struct inode *inode, int error)
{
	if (thing_on() && !error)
		__thing_open(inode);
	return error;
}

static inline int thing_for_us(void)
{
	return __thing_of(thing_level) ? 1 : 0;
}

#define thing_also(inode) \\
	__thing_open(inode)
"""
HOOK = {"hooks/1.patch": "\treturn thing_open(inode, 0);"}


def test_what_an_inline_reaches_is_named() -> None:
    found = exports.missing(HOOK, [HEADER], ["void __thing_open(struct inode *inode) {}\n"])
    assert found == [
        "hooks/1.patch: modules need __thing_open, which is not exported: EXPORT_SYMBOL(__thing_open)",
        "hooks/1.patch: modules need thing_key, which is not exported: EXPORT_SYMBOL(thing_key)",
    ]


def test_what_is_exported_is_not_named() -> None:
    assert exports.missing(HOOK, [HEADER], ["EXPORT_SYMBOL(thing_key);\n", "EXPORT_SYMBOL_GPL(__thing_open);\n"]) == []


def test_macros_are_looked_into() -> None:
    (found,) = exports.missing({"h": "thing_also(inode);"}, [HEADER], [])
    assert "modules need __thing_open," in found


def test_what_only_the_kernel_itself_calls_needs_none() -> None:
    assert exports.missing({"h": "#include <linux/thing.h>"}, [HEADER], []) == []


def test_ours_are_exported() -> None:
    assert exports.problems() == []
