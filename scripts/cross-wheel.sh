#!/usr/bin/env bash
# Tries the wheel for aarch64 under emulation: cross-wheel.sh WHEEL. The interpreter is Debian's for arm64, unpacked into out/cross/python,
# since one for another machine cannot be installed beside that of this machine. Runs after cross-setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
. scripts/cross-environment.sh
[ $# -eq 1 ] && [ -f "$1" ] || fail "usage: cross-wheel.sh WHEEL"
wheel=$PWD/out/cross/wheel python=$PWD/out/cross/python

# The version that Debian's python3 is of, such as 3.11.
version=$(apt-cache depends python3-minimal:arm64 | sed -n 's/.*Depends: python\(3\.[0-9]*\)-minimal.*/\1/p' | head -n 1)
[ -n "$version" ] || fail "apt knows no python3-minimal:arm64: run scripts/cross-setup.sh, or apt-get update"
interpreter=$python/usr/bin/python$version
if [ ! -x "$interpreter" ]; then
    say "fetching Python $version for arm64"
    rm -rf "$python" "$python.part"
    mkdir -p "$python.part"
    (cd "$python.part" && apt-get download -qq \
        "python$version-minimal:arm64" "libpython$version-minimal:arm64" "libpython$version-stdlib:arm64") ||
        fail "apt could not fetch Python $version for arm64: run apt-get update"
    for package in "$python.part"/*.deb; do
        dpkg-deb --extract "$package" "$python.part"
        rm "$package"
    done
    mv "$python.part" "$python"
fi

rm -rf "$wheel"
python3 -m zipfile -e "$1" "$wheel"
emulated=("${cross_emulator[@]}" -E "PYTHONHOME=$python/usr" -E "PYTHONPATH=$wheel" "$interpreter")
scripts/cross-try.sh wheel-command "${emulated[@]}" -m weir

# The module itself: the engine within the interpreter, on the same frames.
began=$SECONDS
export ORT_DYLIB_PATH=$PWD/.runtime/onnxruntime-aarch64/libonnxruntime.so
timeout --kill-after=10 600 "${emulated[@]}" - out/cross/wheel-command/graph.toml <<'END' || fail "the module weir failed under emulation"
import platform
import sys

import weir

frames = found = 0
with weir.Engine(sys.argv[1], speed="max") as engine:
    for delivery in engine.deliveries():
        frames += 1
        found += len(delivery.objects)
print(f"weir {weir.__version__}, Python {platform.python_version()} on {platform.machine()}: {frames} frames, {found} objects")
sys.exit(0 if frames == 8 and found else 1)
END
say "the module weir: $((SECONDS - began)) s under emulation"
