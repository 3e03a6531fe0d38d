#!/usr/bin/env bash
# The evaluation of PPipe, run again in the simulator: tables and figures into docs/reproduction/ppipe.
# Published block latencies are taken from the asset pack where there is one; elsewhere synthetic profiles stand in.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
if [ -n "$assets" ] && [ -d "$assets/profiles/ppipe" ]; then
    export WEIR_ASSETS=$assets
    say "published block latencies: asset pack"
else
    unset WEIR_ASSETS
    say "no asset pack (WEIR_ASSETS): synthetic profiles of config/profiles"
fi
"${CARGO:-cargo}" build --release --locked -p weir-reproduction --bin reproduce-ppipe
begin=$SECONDS
"${CARGO:-cargo}" run --release --locked --quiet -p weir-reproduction --bin reproduce-ppipe
say "docs/reproduction/ppipe/README.md, in $((SECONDS - begin)) s"
