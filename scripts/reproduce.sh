#!/usr/bin/env bash
# A published evaluation, run again in the simulator: tables and figures into docs/reproduction/NAME.
# What was recorded or published is taken from the asset pack where it is there; elsewhere something stands in for it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

name=${1:-}
case $name in
pard)
    wanted="recorded traces" folder=. otherwise="traces are generated"
    ;;
ppipe)
    wanted="published block latencies" folder=profiles/ppipe otherwise="synthetic profiles of config/profiles"
    ;;
ken)
    wanted="published profiles and cascades" folder=profiles/ken otherwise="there is nothing to run"
    ;;
goodserve)
    wanted="published step times" folder=profiles/llm otherwise="there is nothing to run"
    ;;
qlm)
    wanted="recorded lengths and published step times" folder=profiles/llm otherwise="there is nothing to run"
    ;;
*)
    fail "there is no such evaluation: NAME is pard, ppipe, ken, goodserve or qlm"
    ;;
esac
assets=$(asset_pack)
if [ -n "$assets" ] && [ -d "$assets/$folder" ]; then
    export WEIR_ASSETS=$assets
    say "$wanted: asset pack"
else
    unset WEIR_ASSETS
    say "no $wanted (WEIR_ASSETS): $otherwise"
fi
"${CARGO:-cargo}" build --release --locked -p weir-reproduction --bin "reproduce-$name"
begin=$SECONDS
"${CARGO:-cargo}" run --release --locked --quiet -p weir-reproduction --bin "reproduce-$name"
say "docs/reproduction/$name/README.md, in $((SECONDS - begin)) s"
