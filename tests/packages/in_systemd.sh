#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In a Debian with systemd in which terrace-tools is installed: what is done in each boot, $1. Called by a unit, when all
# others are up. What it prints, and its exit code, are looked at outside; so are the files in /root/seen.
set -eux
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
mtier=/sys/kernel/mm/mtier
pid() { systemctl show -p MainPID --value hot; }
# Of the service's hot pages, some 4000 in one mapping, those on the top node.
hot() {
    sed -En 's/.* (anon|dirty)=4[0-9]{3} .* N0=([0-9]+) .*/\2/p' "/proc/$(pid)/numa_maps" | grep . || echo 0
}

case $1 in
first)
    # The package has switched nothing on.
    test "$(cat $mtier/enabled)" = 0
    test "$(systemctl is-enabled terrace)" = disabled
    test "$(systemctl is-enabled terrace-exporter)" = disabled
    terrace status --interval 0 --json -o /root/seen/before.json
    terrace set --save promote.rate=500M/s demotion_enabled=1 enabled=1
    systemctl enable --now terrace
    ;;
again)
    systemctl is-active terrace
    test "$(cat $mtier/enabled)" = 1
    test "$(cat $mtier/promote/rate_mbps)" = 500
    # Until its pages are in DRAM, or whoever waits for this machine has waited enough.
    until test "$(hot)" -gt 3900; do sleep 1; done
    terrace status --interval 0 --json -o /root/seen/after.json
    pid > /root/seen/pid
    terrace top --by process --count 1 --interval 0.1 --json -o /root/seen/top.json

    # A changed file, and a wrong one.
    echo 'engine.scan.cpu_percent = 7' >> /etc/terrace/terrace.toml
    systemctl reload terrace
    test "$(cat $mtier/scan/cpu_percent)" = 7
    sed -i 's/cpu_percent = 7/cpu_percent = 700/' /etc/terrace/terrace.toml
    systemctl reload terrace && exit 90
    test "$(cat $mtier/scan/cpu_percent)" = 7
    sed -i '/cpu_percent = 700/d' /etc/terrace/terrace.toml
    systemctl reload terrace
    test "$(cat $mtier/scan/cpu_percent)" = 25

    systemctl stop terrace
    test "$(cat $mtier/enabled) $(cat $mtier/promote/rate_mbps)" = "0 1024"
    test "$(cat /sys/kernel/mm/numa/demotion_enabled)" = false
    systemctl start terrace
    test "$(cat $mtier/enabled)" = 1
    ;;
stock)
    # Another kernel, the same Debian: the unit is skipped, which is no failure, and the tool says what is missing.
    test "$(systemctl is-active terrace)" = inactive
    test "$(systemctl show -p ConditionResult --value terrace)" = no
    terrace status --interval 0 --json -o /root/seen/stock.json
    terrace apply && exit 91
    terrace apply 2>&1 | grep -F 'it has no promotion engine'
    ;;
last)
    # By itself, by a person, and gone.
    test "$(cat $mtier/enabled)" = 1
    apt-get --yes --quiet purge terrace-tools
    test "$(cat $mtier/enabled) $(cat $mtier/promote/rate_mbps)" = "0 1024"
    test ! -e /etc/terrace
    test ! -e /run/terrace
    test ! -e /lib/systemd/system/terrace.service
    test ! -e /etc/systemd/system/multi-user.target.wants/terrace.service
    ;;
*)
    exit 93
    ;;
esac
