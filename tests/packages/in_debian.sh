#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What is done in each boot of a whole Debian, from before our packages are there until they are gone again. The name of the
# next step outlives a reboot in /terrace/step; files in /terrace/seen are looked at outside, and so is what this prints.
set -eux
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
mtier=/sys/kernel/mm/mtier
packages=/terrace/debs
step=$(cat /terrace/step 2> /dev/null || echo first)

# Reboot, and go on with step $1; into the boot menu's entry of kernel $2, if that is not the first.
reboot_for() {
    echo "$1" > /terrace/step
    if [ $# = 2 ]; then
        entry=$(menu "gnulinux-$2-advanced")
        grub-reboot "$(menu gnulinux-advanced)>${entry:?}"
    fi
    systemctl reboot
    exec sleep infinity
}

# The name of the boot menu's entry that begins so.
menu() { awk -F "'" -v name="$1" 'NF > 1 && index($(NF - 1), name) == 1 { print $(NF - 1); exit }' /boot/grub/grub.cfg; }

# Every file but those that a system writes by itself.
files() {
    find / -xdev \( -path /var/log -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/systemd -o -path /tmp \
        -o -path /var/tmp -o -path /root -o -path /terrace -o -path /var/backups -o -path '/var/lib/dpkg/*-old' \) -prune \
        -o -print | sort
}

# What a kernel of Debian has.
abilities() {
    printf 'tracers: %s\n' "$(tr ' ' '\n' < /sys/kernel/tracing/available_tracers | sort | xargs)"
    printf 'control groups: %s\n' "$(tr ' ' '\n' < /sys/fs/cgroup/cgroup.controllers | sort | xargs)"
    printf 'MGLRU: %s\n' "$(cat /sys/kernel/mm/lru_gen/enabled)"
    printf 'type data: %s\n' "$(test -s /sys/kernel/btf/vmlinux && echo there)"
    printf 'a program for BPF: %s\n' "$(python3 /terrace/bpf.py)"
    printf 'a traced event: %s\n' "$(traced)"
    printf 'root: %s\n' "$(findmnt -n -o FSTYPE,SOURCE /)"
    printf 'modules: %s\n' "$(lsmod | awk '{ print $1 }' | grep -E '^(ahci|dm_mod|loop|virtio_blk)$' | sort | xargs)"
    printf 'swapped: %s\n' "$(swapped)"
}
traced() {
    cd /sys/kernel/tracing
    echo 1 > events/sched/sched_process_exec/enable
    /bin/true
    echo 0 > events/sched/sched_process_exec/enable
    grep -o 'filename=/bin/true' trace
    cd /
}
swapped() {
    test -e /var/tmp/swap || dd if=/dev/zero of=/var/tmp/swap bs=1M count=128 status=none
    chmod 600 /var/tmp/swap
    mkswap -q /var/tmp/swap
    swapon /var/tmp/swap
    before=$(awk '/^pswpout / { print $2 }' /proc/vmstat)
    systemd-run --quiet --wait -p MemoryMax=24M /usr/bin/python3 -c 'b = bytearray(64 << 20); b[::4096] = b"1" * (64 << 8)'
    after=$(awk '/^pswpout / { print $2 }' /proc/vmstat)
    swapoff /var/tmp/swap
    test $((after - before)) -gt 4096 && echo yes
}

pid() { systemctl show -p MainPID --value hot; }
# Of the service's hot pages, some 4000 in one mapping, those on the top node.
hot() {
    sed -En 's/.* (anon|dirty)=4[0-9]{3} .* N0=([0-9]+) .*/\2/p' "/proc/$(pid)/numa_maps" | grep . || echo 0
}
installed() { dpkg-query -W -f '${Package} ${Version}\n' terrace-tools libterrace0 'linux-image-*+terrace'; }
on() { test "$(cat $mtier/enabled) $(cat $mtier/promote/rate_mbps)" = "1 500"; }
off() { test "$(cat $mtier/enabled) $(cat $mtier/promote/rate_mbps)" = "0 1024"; }

case $step in
first)
    # The kernel of Debian, nothing of ours.
    mkdir /terrace/seen
    echo 'APT::Get::Assume-Yes "true"; quiet "2"; Dpkg::Use-Pty "0";' > /etc/apt/apt.conf.d/90lab
    uname -r > /terrace/stock
    abilities | tee /terrace/seen/abilities.stock
    files > /terrace/files.before
    cd $packages
    apt install ./terrace-tools_*.deb ./libterrace0_*.deb ./linux-image-*.deb
    installed | tee /terrace/seen/installed
    terrace status --interval 0 | tee /terrace/seen/status.stock
    reboot_for ours
    ;;
ours)
    # The boot menu has chosen it; the package has switched nothing on.
    case $(uname -r) in *+terrace) ;; *) exit 92 ;; esac
    uname -r > /terrace/ours
    abilities | tee /terrace/seen/abilities.ours
    off
    test "$(systemctl is-enabled terrace)" = disabled
    test "$(systemctl is-enabled terrace-exporter)" = disabled
    terrace doctor --for machine
    terrace status --interval 0 | tee /terrace/seen/status.before
    terrace status --interval 0 --json -o /terrace/seen/before.json
    cp /terrace/hot.service /etc/systemd/system
    systemctl enable hot
    # Debian has hint faults move pages, too; what is seen here shall be the engine's.
    terrace set --save numa_balancing 0
    terrace set --save promote.rate=500M/s demotion_enabled=1 enabled=1
    systemctl enable --now terrace
    on
    reboot_for again
    ;;
again)
    systemctl is-active terrace
    on
    # Until its pages are in DRAM, or whoever waits for this machine has waited enough.
    until test "$(hot)" -gt 3900; do sleep 1; done
    terrace status --interval 0 | tee /terrace/seen/status.after
    terrace status --interval 0 --json -o /terrace/seen/after.json
    pid > /terrace/seen/pid
    terrace top --by process --count 1 --interval 0.1 --json -o /terrace/seen/top.json

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
    off
    test "$(cat /sys/kernel/mm/numa/demotion_enabled)" = false
    systemctl start terrace
    on

    # Later packages, and the first ones again: the file of settings stays, and so does what is in force.
    cp /etc/terrace/terrace.toml /terrace/settings
    apt install /terrace/newer/*.deb
    installed | tee /terrace/seen/upgraded
    systemctl is-active terrace
    on
    apt install --allow-downgrades $packages/terrace-tools_*.deb $packages/libterrace0_*.deb
    apt install --allow-downgrades $packages/linux-image-*.deb
    installed | diff - /terrace/seen/installed
    systemctl is-active terrace
    on
    cmp /etc/terrace/terrace.toml /terrace/settings
    reboot_for stock "$(cat /terrace/stock)"
    ;;
stock)
    # Another kernel, the same Debian: the unit is skipped, which is no failure, and the tool says what is missing.
    test "$(uname -r)" = "$(cat /terrace/stock)"
    test "$(systemctl is-active terrace)" = inactive
    test "$(systemctl show -p ConditionResult --value terrace)" = no
    test -z "$(systemctl --failed --no-legend)"
    terrace status --interval 0 --json -o /terrace/seen/stock.json
    terrace apply && exit 91
    terrace apply 2>&1 | grep -F 'it has no promotion engine'
    reboot_for last
    ;;
last)
    # Ours again; removed, then purged.
    test "$(uname -r)" = "$(cat /terrace/ours)"
    on
    apt remove terrace-tools
    off
    test -e /etc/terrace/terrace.toml
    test ! -e /usr/bin/terrace
    apt install $packages/terrace-tools_*.deb
    systemctl start terrace
    on
    apt purge terrace-tools libterrace0
    off
    test ! -e /run/terrace
    systemctl disable --now hot
    rm /etc/systemd/system/hot.service
    reboot_for gone "$(cat /terrace/stock)"
    ;;
gone)
    test "$(uname -r)" = "$(cat /terrace/stock)"
    apt purge "linux-image-$(cat /terrace/ours)"
    grep -F -- "$(cat /terrace/ours)" /boot/grub/grub.cfg && exit 94
    files | diff /terrace/files.before -
    echo nothing of ours is left
    ;;
*)
    exit 93
    ;;
esac
