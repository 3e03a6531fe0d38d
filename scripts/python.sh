#!/usr/bin/env bash
# Builds the package for Python into a virtual environment, and runs its tests there. WHEEL=1 makes a release wheel in dist/ instead, and
# with CROSS=aarch64 one for that machine in dist/aarch64/, on an x86-64 Debian, which is then tried under emulation.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

if [ -n "${CROSS:-}" ]; then
    [ "$CROSS" = aarch64 ] || fail "CROSS=$CROSS: wheels are cross-compiled for aarch64 alone"
    [ "${WHEEL:-}" = 1 ] || fail "CROSS=$CROSS makes a wheel: set WHEEL=1 as well"
    scripts/cross-setup.sh
    . scripts/cross-environment.sh
fi
python=${WEIR_PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "Python 3.10 or newer is needed; WEIR_PYTHON names one"
environment=out/python
[ -x $environment/bin/python ] || "$python" -m venv $environment || fail "venv is missing: apt-get install python3-venv"
$environment/bin/pip install --quiet --requirement bindings/python/requirements.txt
# Beside what the main workspace has built: most crates of others are the same there.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export VIRTUAL_ENV=$PWD/$environment PATH=$PWD/$environment/bin:$PATH

if [ "${WHEEL:-}" = 1 ]; then
    machine=${CROSS:-$(uname -m)}
    # Wheels for another machine are in a folder of their own: pip refuses them here.
    out=dist${CROSS:+/$CROSS}
    rm -f "$out"/weir-*.whl
    maturin build --release --manifest-path bindings/python/Cargo.toml --out "$out" ${CROSS:+--target "$cross_target"}
    wheel=$(ls "$out"/weir-*.whl)
    # The libraries that the wheel is linked to, and Debian's packages that bring them here.
    unpacked=$(mktemp -d)
    trap 'rm -rf "$unpacked"' EXIT
    python -m zipfile -e "$wheel" "$unpacked"
    mapfile -t libraries < <(readelf --dynamic "$unpacked/weir/_weir.abi3.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    packages=$(dpkg-query --search "${libraries[@]/#/*/$machine-linux-gnu/}" 2>/dev/null | sed 's/:.*//' | sort -u | tr '\n' ' ' || true)
    say "$wheel needs ${libraries[*]}"
    [ -z "$packages" ] || say "packages of $(. /etc/os-release && echo "$PRETTY_NAME") that bring them: $packages"
    [ -z "${CROSS:-}" ] || scripts/cross-wheel.sh "$wheel"
    exit
fi
assets=$(asset_pack)
if [ -n "$assets" ]; then
    export WEIR_ASSETS=$assets
else
    unset WEIR_ASSETS
    say "no asset pack (WEIR_ASSETS): tests that need it skip"
fi
maturin develop --quiet --manifest-path bindings/python/Cargo.toml
cd bindings/python
exec python -m pytest "$@"
