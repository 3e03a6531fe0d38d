#!/usr/bin/env bash
# Detection beside endless loops of equal priority that are switched on and off; see bench-shared-machine.py.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
[ -n "$assets" ] || fail "the benchmark needs the asset pack: set WEIR_ASSETS to its folder"
exec python3 scripts/bench-shared-machine.py "$assets"
