#!/usr/bin/env bash
# The evaluation of PARD, run again in the simulator: tables and figures into docs/reproduction/pard.
# Recorded traces are taken from the asset pack where there is one; elsewhere they are generated.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
if [ -n "$assets" ]; then
    export WEIR_ASSETS=$assets
    say "recorded traces: asset pack"
else
    unset WEIR_ASSETS
    say "no asset pack (WEIR_ASSETS): traces are generated"
fi
"${CARGO:-cargo}" build --release --locked -p weir-reproduction --bin reproduce-pard
begin=$SECONDS
"${CARGO:-cargo}" run --release --locked --quiet -p weir-reproduction --bin reproduce-pard
say "docs/reproduction/pard/README.md, in $((SECONDS - begin)) s"
