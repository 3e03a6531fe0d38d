#!/usr/bin/env bash
# Graphs run live and simulated on the same arrivals. Live runs keep the processors awake: a virtual one that has gone idle
# may get its turn milliseconds late, and then it is the host that is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

"${CARGO:-cargo}" build --release --locked -p weir-benches --bin live-vs-simulated --bin live-changes

loops=()
trap 'kill "${loops[@]}" 2>/dev/null || true' EXIT
if chrt --idle 0 true 2>/dev/null; then
    for _ in $(seq "$(nproc)"); do
        chrt --idle 0 sh -c 'while :; do :; done' &
        loops+=($!)
    done
    say "loops of idle priority keep $(nproc) processors awake"
else
    say "chrt gives no idle priority here: processors may sleep, and wake late"
fi
"${CARGO:-cargo}" run --release --locked -p weir-benches --bin live-vs-simulated -- "$@"
say "streams that come, go and change: a minute"
"${CARGO:-cargo}" run --release --locked -p weir-benches --bin live-changes
