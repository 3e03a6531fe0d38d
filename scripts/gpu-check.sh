#!/usr/bin/env bash
# Checks the engine on this machine's GPU: models against the CPU, their profiles, the engine beside the limit of the device,
# cameras until they are too many. Writes out/gpu-check/gpu-check.json and gpu-check.md. Without a GPU that can be used it says so
# in one line and exits with 0; with one, it exits with 1 where something does not hold.
#
# From a machine with a driver and Rust alone it builds what it needs. A binary and a library that were carried along are taken
# by WEIR_BIN and ORT_DYLIB_PATH. Further arguments go to `weir gpu-check`.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${WEIR_BIN:-}" ] && [ ! -e /proc/driver/nvidia ] && [ ! -e /dev/nvidiactl ]; then
    echo "gpu-check: nothing was checked: no NVIDIA driver on this machine"
    exit 0
fi
if [ -z "${WEIR_BIN:-}" ]; then
    WEIR_CUDA=1 scripts/setup.sh
    "${CARGO:-cargo}" build --release --locked -p weir --features "parquet cuda"
    WEIR_BIN=${CARGO_TARGET_DIR:-target}/release/weir
fi
clip=()
[ -f videos/street-day.mp4 ] && clip=(--clip videos/street-day.mp4)
out=(--out out/gpu-check)
for argument in "$@"; do
    case $argument in --out | --out=*) out=() ;; --clip | --clip=*) clip=() ;; esac
done
exec "$WEIR_BIN" gpu-check "${out[@]}" "${clip[@]}" "$@"
