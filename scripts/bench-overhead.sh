#!/usr/bin/env bash
# The engine against the bare limit of the machine, on a clip and a model of the asset pack.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
[ -n "$assets" ] || fail "the benchmark needs the asset pack: set WEIR_ASSETS to its folder"
export WEIR_ASSETS=$assets
exec "${CARGO:-cargo}" run --release --locked -p weir-benches --bin overhead
