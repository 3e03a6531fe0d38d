#!/usr/bin/env bash
# Unpacks libonnxruntime.so from the pinned wheel to .runtime/onnxruntime/, where the program finds it by itself.
# Version and checksums are in onnxruntime.txt (onnxruntime-cuda.txt with WEIR_CUDA=1); pip verifies them. CROSS=aarch64 takes that of
# another machine, to .runtime/onnxruntime-aarch64/, where programs of this machine do not look.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

pins=scripts/onnxruntime.txt
[ "${WEIR_CUDA:-0}" = 1 ] && pins=scripts/onnxruntime-cuda.txt
machine=${CROSS:-$(uname -m)}
target=.runtime/onnxruntime
[ "$machine" = "$(uname -m)" ] || target=.runtime/onnxruntime-$machine
stamp=$target/pins.txt

# The pins that were unpacked lie beside the library: the same pins, the same library.
if cmp -s "$pins" "$stamp" && [ -e "$target/libonnxruntime.so" ]; then
    exit 0
fi

case "$machine" in
x86_64) ;;
aarch64)
    [ "$pins" = scripts/onnxruntime.txt ] || fail "the CUDA build of ONNX Runtime is pinned for x86_64 only"
    ;;
*) fail "no ONNX Runtime is pinned for $machine; build it and set ORT_DYLIB_PATH to its libonnxruntime.so" ;;
esac

part=$target.part
rm -rf "$part"
mkdir -p "$part"
trap 'rm -rf "$part"' EXIT

say "fetching $(sed -n 's/^\(onnxruntime[^ ]*\).*/\1/p' "$pins") for $machine"
python3 -m pip download --quiet --disable-pip-version-check --no-input --no-deps --only-binary=:all: \
    --require-hashes --requirement "$pins" --dest "$part" \
    --platform "manylinux_2_28_$machine" --python-version 3.13 --implementation cp --abi cp313 ||
    fail "ONNX Runtime could not be fetched by pip (see above); set ORT_DYLIB_PATH to use one that is there"

python3 scripts/unpack-onnxruntime.py "$part"
cp "$pins" "$part/pins.txt"
rm -rf "$target"
mv "$part" "$target"
say "$(cd "$target" && echo libonnxruntime.so.*) is in $target"
