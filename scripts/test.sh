#!/usr/bin/env bash
# All tests, of the features in WEIR_TEST_FEATURES as well. The asset pack is passed on where there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
if [ -n "$assets" ]; then
    export WEIR_ASSETS=$assets
    say "asset pack: $assets"
else
    unset WEIR_ASSETS
    say "no asset pack (WEIR_ASSETS): tests that need it skip"
fi
exec "${CARGO:-cargo}" test --workspace --locked --features "${WEIR_TEST_FEATURES:-}"
