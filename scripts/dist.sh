#!/usr/bin/env bash
# Packages of a release build, into dist/: a tarball that runs where it is unpacked, and a .deb with a unit of systemd. FFmpeg comes
# from the system: a package is for the release of Debian that it was built on. Runs after `make build`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

program=target/release/weir
[ -x "$program" ] || fail "there is no $program: run make build"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
library=$(readlink -f .runtime/onnxruntime/libonnxruntime.so)
[ -f "$library" ] || fail "there is no ONNX Runtime in .runtime: run make setup"
# Files of a package have the time of the last commit, so that the same sources give the same package.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p dist
rm -f dist/weir_* dist/weir-*.tar.gz

# What both hold, below $1: the program, its library beside it, manual, completions, examples, licences.
fill() {
    local root=$1
    install -D --strip --mode=755 "$program" "$root/bin/weir"
    install -D --strip --mode=644 "$library" "$root/lib/weir/libonnxruntime.so"
    "$program" man >"$work/weir.1"
    install -D --mode=644 "$work/weir.1" "$root/share/man/man1/weir.1"
    gzip --no-name --best --force "$root/share/man/man1/weir.1"
    install -d "$root/share/bash-completion/completions" "$root/share/zsh/vendor-completions" \
        "$root/share/fish/vendor_completions.d"
    "$program" completions bash >"$root/share/bash-completion/completions/weir"
    "$program" completions zsh >"$root/share/zsh/vendor-completions/_weir"
    "$program" completions fish >"$root/share/fish/vendor_completions.d/weir.fish"
    local documents=$root/share/doc/weir
    install -d "$documents/docs" "$documents/examples"
    install --mode=644 README.md CHANGELOG.md LICENSE LICENSE-MIT LICENSE-APACHE "$documents/"
    (cd docs && find . \( -path ./decisions -o -path ./reproduction \) -prune -o -type f -print0 |
        xargs --null cp --parents --target-directory="$documents/docs")
    install --mode=644 deploy/docker/graph.toml "$documents/examples/"
    cp -r deploy/docker deploy/kubernetes "$documents/examples/"
    chmod -R u=rwX,go=rX "$root"
}

# The tarball.
folder=weir-$version-linux-$(uname -m)
fill "$work/$folder"
install -D --mode=644 deploy/systemd/weir.service "$work/$folder/lib/systemd/system/weir.service"
tar --create --gzip --file "dist/$folder.tar.gz" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$SOURCE_DATE_EPOCH" --directory "$work" "$folder"

# The package.
root=$work/deb
fill "$root/usr"
install -D --mode=644 deploy/systemd/weir.service "$root/usr/lib/systemd/system/weir.service"
# The graph is made by the user: weir init writes no file that is there. The folder of data is there for weir check.
install -d "$root/etc/weir" "$root/var/lib/weir"
mkdir "$root/DEBIAN" "$work/debian"
# The libraries that it is linked to, by the packages that bring them.
printf 'Source: weir\n\nPackage: weir\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps --ignore-missing-info -O -e"$root/usr/bin/weir" \
    -e"$root/usr/lib/weir/libonnxruntime.so" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || fail "dpkg-shlibdeps names no packages of its libraries"
cat >"$root/DEBIAN/control" <<END
Package: weir
Version: $version
Architecture: $architecture
Maintainer: The Weir developers <weir@localhost>
Installed-Size: $(du --summarize --apparent-size --block-size=1K "$root" | cut -f1)
Depends: $depends
Recommends: ca-certificates
Section: video
Priority: optional
Description: video analytics on live cameras under a latency promise
 Runs graphs of ONNX models on cameras and recorded videos, drops what cannot
 come out in time before work is wasted on it, and tells of tracks, counts and
 incidents by MQTT, webhooks and files.
END
# The service is not started before there is a graph of this place.
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if systemctl is-active --quiet weir.service; then
        systemctl restart weir.service
    fi
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now weir.service || true
fi
END
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
dpkg-deb --root-owner-group -Zxz --build "$root" "dist/weir_${version}_$architecture.deb" >/dev/null

for file in dist/*; do
    say "$file: $(du --apparent-size --block-size=1M "$file" | cut -f1) MiB"
done
