#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In a bare Debian: upgrade terrace-tools without anybody to answer dpkg, after `terrace set --save`. /debs has four
# versions: "older" ships /etc/terrace/terrace.toml as a conffile, "old" does so with another text, "new" is what is
# built, "newer" is that with another example.
set -eux
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
settings=/etc/terrace/terrace.toml
example=/usr/share/doc/terrace-tools/examples/terrace.toml

# Install version $1 of the tools as apt does for a person who is away.
tools() { apt-get --yes --quiet --no-install-recommends install "/debs/$1"/*.deb < /dev/null; }
# Change a knob of a copied kernel, not of this machine, and save it.
save() { terrace set --root /tmp/machine --save "$1" "$2"; }
# Check that the package is configured, owns no conffile, and left no copy of the settings beside them.
sound() {
    test "$(dpkg-query -W -f '${db:Status-Abbrev}|${Conffiles}' terrace-tools)" = 'ii |'
    test -z "$(find /etc/terrace -name '*.dpkg-*' 2> /dev/null)"
}

mkdir -p /tmp/machine/sys/kernel/mm/numa
echo false > /tmp/machine/sys/kernel/mm/numa/demotion_enabled
ln -s /etc /tmp/machine/etc
apt-get --yes --quiet update
apt-get --yes --quiet install /debs/library/*.deb

# The case itself: dpkg asks about a conffile that the tool edited and the package changed, and stops.
tools older
save demotion_enabled 1
chmod 640 $settings
cp -p $settings /tmp/saved
if tools old; then exit 80; fi
test "$(dpkg-query -W -f '${db:Status-Abbrev}' terrace-tools)" = 'iU '

# From there, and from a sound package, to one that brings an example alone: the edited settings stay as they are.
tools new
sound
cmp $settings /tmp/saved
test "$(stat -c %a $settings)" = 640
terrace apply --check | grep -F '1 setting, nothing wrong'
tools newer
sound
cmp $settings /tmp/saved
grep -F '# A changed example.' $example
apt-get --yes --quiet purge terrace-tools
test ! -e /etc/terrace

# Settings that nobody edited go with the conffile; a symbolic link to edited ones stays a link.
tools old
tools new
sound
test ! -e /etc/terrace
apt-get --yes --quiet purge terrace-tools
tools old
mv $settings /root/terrace.toml
ln -s /root/terrace.toml $settings
save demotion_enabled 1
tools new
sound
test "$(readlink $settings)" = /root/terrace.toml
terrace apply --check | grep -F '1 setting, nothing wrong'
apt-get --yes --quiet purge terrace-tools
test ! -e /etc/terrace
test -e /root/terrace.toml

# Installed anew, saved, upgraded with another example, saved again, removed and purged.
tools new
test ! -e /etc/terrace
save demotion_enabled 1
tools newer
sound
save demotion_enabled 0
grep -Fx 'demotion_enabled = 0' $settings
apt-get --yes --quiet remove terrace-tools
test -e $settings
apt-get --yes --quiet purge terrace-tools
test ! -e /etc/terrace
echo every upgrade went through
