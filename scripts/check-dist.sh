#!/usr/bin/env bash
# What `make dist` packed, where nothing else is: the .deb is installed with apt in a bare root of this release of Debian, and the
# demo runs there as a user without privileges; the tarball runs where it is unpacked; the unit's exposure by systemd-analyze,
# offline, is below LIMIT. Needs root, debootstrap (installed where it is missing) and Debian's packages. Runs after `make dist`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

# Exposure of a unit, of 10; below 3 is "OK" or "SAFE".
readonly LIMIT=3.0
[ "$(id -u)" = 0 ] || fail "a root of its own needs the rights of root: run this as root, or in a container"
package=$(ls dist/weir_*.deb 2>/dev/null | head -1)
archive=$(ls dist/weir-*.tar.gz 2>/dev/null | head -1)
[ -n "$package" ] && [ -n "$archive" ] || fail "there are no packages in dist: run make dist"
command -v debootstrap >/dev/null || apt-get install --yes --no-install-recommends debootstrap >/dev/null
. /etc/os-release

root=$(mktemp -d)
chmod 755 "$root"
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
say "a bare $VERSION_CODENAME"
debootstrap --variant=minbase "$VERSION_CODENAME" "$root" >"$root.log" 2>&1 || fail "debootstrap failed: $(tail -3 "$root.log")"
rm -f "$root.log"
# As in every container and on every machine: programs find what lies beside them by it.
mount -t proc proc "$root/proc"

say "installing $package"
install --mode=644 "$package" "$root/weir.deb"
install --mode=644 "$archive" "$root/weir.tar.gz"
in_root() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp DEBIAN_FRONTEND=noninteractive "$@"
}
in_root apt-get install --yes --no-install-recommends /weir.deb >"$root/apt.log" 2>&1 ||
    fail "apt could not install it: $(tail -5 "$root/apt.log")"

# The demo of traffic monitoring with its clip, as in a checkout.
install -d "$root/srv/apps" "$root/srv/videos"
cp -r apps/traffic-monitoring "$root/srv/apps/"
cp videos/street-day.mp4 videos/street-day.truth.jsonl "$root/srv/videos/"
cp -r videos/gallery "$root/srv/videos/"
chmod -R a+rX "$root/srv"
install -d --mode=1777 "$root/srv/out"
demo() {
    chroot --userspec=nobody:nogroup "$root" env -i HOME=/tmp "$@" \
        score /srv/apps/traffic-monitoring/demo.toml --truth /srv/videos/street-day.truth.jsonl --out "/srv/out/$name"
}
for name in package tarball; do
    if [ "$name" = package ]; then
        weir=/usr/bin/weir
    else
        # What the package depends on stays: the tarball brings the program and ONNX Runtime.
        in_root dpkg --remove weir >/dev/null
        in_root tar --extract --gzip --file /weir.tar.gz --directory /opt
        weir=$(cd "$root" && ls -d opt/weir-*/bin/weir)
        weir=/$weir
    fi
    demo "$weir" >"$root/$name.log" 2>&1 || fail "the demo of the $name failed: $(tail -5 "$root/$name.log")"
    events=$(grep -c '"type":"frame"' "$root/srv/out/$name/events.jsonl")
    video=$(ls "$root/srv/out/$name" | grep -m1 '\.mp4$') || fail "the demo of the $name left no video"
    [ "$events" -gt 0 ] || fail "the demo of the $name left no events"
    say "the demo of the $name: $events frames in events.jsonl, $video"
done

score=$(systemd-analyze security --offline=true deploy/systemd/weir.service 2>/dev/null |
    sed -n 's/.*Overall exposure level.*: \([0-9.]*\).*/\1/p')
[ -n "$score" ] || fail "systemd-analyze gave no score"
say "exposure of the unit: $score of 10"
awk -v score="$score" -v limit="$LIMIT" 'BEGIN { exit !(score < limit) }' || fail "that is not below $LIMIT"
