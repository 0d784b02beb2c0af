#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In a fresh Debian with git and python3: run the two commands of the README from a clone to their ends, without a terminal.
# Arguments are added to both. Exit codes, times and all output go to /root/kept.
set -eu
cd /root/terrace
mkdir -p /root/kept

timed() {
    name=$1
    shift
    code=0
    begin=$(date +%s)
    nohup "$@" < /dev/null > "/root/kept/$name.log" 2>&1 || code=$?
    echo "$name $code $(($(date +%s) - begin))" >> /root/kept/ended
}

timed demo ./terrace --yes demo --picture /root/kept/demo.svg "$@"
timed test ./terrace --yes test -o /root/kept/test.json "$@"
