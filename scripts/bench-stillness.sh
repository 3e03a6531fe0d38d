#!/usr/bin/env bash
# What a motion gate saves and what it misses: bench-stillness.sh [--kinds day rain] [--groups 25 200]; see bench-stillness.py.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
[ -n "$assets" ] || fail "the benchmark needs the asset pack: set WEIR_ASSETS to its folder"
exec python3 scripts/bench-stillness.py "$assets" "$@"
