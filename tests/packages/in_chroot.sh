#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In a bare Debian that has nothing but apt: install the packages of /debs, use them, take them away again.
set -eux
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

# What lies where, but for what dpkg, apt and ld.so note for themselves.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /debs \
        -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \) -prune -o -print |
        grep -Ev '^/etc/ld.so.cache|/__pycache__' | sort
}

apt-get --yes --quiet update
# What the tools depend on stays; only what is ours has to go.
apt-get --yes --quiet --no-install-recommends install python3 python3-argcomplete man-db
files > /tmp/before

apt-get --yes --quiet install /debs/*.deb
command -v gcc && exit 89
cd /
terrace --version
terrace help
terrace status --interval 0
terrace status --json --interval 0 -o /tmp/status.json
terrace top --count 1 --interval 0.1 --by process --json -o /tmp/top.json
terrace set --list
terrace features --json -o /tmp/features.json
terrace doctor || test $? = 3
terrace doctor --for lab && exit 90
terrace exec --preferred 0 -- true
terrace exec --weighted-interleave 0=1 --fallback -- true
terrace spread 1M
terrace exporter --json | grep -F terrace_node_memory_bytes
terrace exporter --textfile - && exit 93
# The packages bring an example of the settings, which sets nothing, and no settings.
test ! -e /etc/terrace
terrace apply --check --file /usr/share/doc/terrace-tools/examples/terrace.toml | grep -F '0 settings, nothing wrong'
terrace apply --unit | grep -F 'ExecStart="/usr/bin/terrace" apply'
terrace demo && exit 91
# Pages and completions.
for page in man1/terrace.1 man1/terrace-status.1 man5/terrace.toml.5 man2/mbind2.2 man3/terrace_policy.3; do
    test -s "/usr/share/man/$page.gz" || grep -q path-exclude /etc/dpkg/dpkg.cfg.d/*
done
completed() {
    COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9 _ARGCOMPLETE=1 _ARGCOMPLETE_IFS=' ' \
        _ARGCOMPLETE_STDOUT_FILENAME=/tmp/completed terrace >&2
    cat /tmp/completed
}
completed 'terrace sta' | grep -w status
completed 'terrace set scan.de' | grep -F scan.delay_ms
completed 'terrace exec --membind ' | grep -w 0
# A user's own modules do not reach what root runs.
mkdir /tmp/evil && echo 'raise SystemExit(92)' > /tmp/evil/json.py
(cd /tmp/evil && PYTHONPATH=/tmp/evil terrace status --interval 0 > /dev/null)

# What the tool saves outlives the package; purge removes it. The knob is one of a copied kernel, not this machine's.
mkdir -p /tmp/machine/sys/kernel/mm/numa
echo false > /tmp/machine/sys/kernel/mm/numa/demotion_enabled
ln -s /etc /tmp/machine/etc
terrace set --root /tmp/machine --save demotion_enabled 1
terrace apply --check | grep -F '1 setting, nothing wrong'
apt-get --yes --quiet remove terrace-tools
grep -Fx 'demotion_enabled = 1' /etc/terrace/terrace.toml
test ! -e /usr/share/terrace-tools
apt-get --yes --quiet purge terrace-tools libterrace0 libterrace-dev 'libterrace0-dbgsym'
files > /tmp/after
diff /tmp/before /tmp/after
test ! -e /run/terrace
