#!/usr/bin/env bash
# Detection on 4 to 64 cameras, decoded as needed and whole: bench-cameras.sh [--cameras 4 16] [--clips plain] ...; see bench-cameras.py.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
[ -n "$assets" ] || fail "the benchmark needs the asset pack: set WEIR_ASSETS to its folder"
exec python3 scripts/bench-cameras.py "$assets" "$@"
