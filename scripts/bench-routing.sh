#!/usr/bin/env bash
# Routing over three workers that take 1, 2 and 4 times as long; see bench-routing.py.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
[ -n "$assets" ] || fail "the benchmark needs the asset pack: set WEIR_ASSETS to its folder"
exec python3 scripts/bench-routing.py "$assets"
