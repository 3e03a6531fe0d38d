#!/usr/bin/env bash
# Traffic monitoring with its detector over three worker processes, one of which is killed and started again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
[ -n "$assets" ] || fail "the benchmark needs the asset pack: set WEIR_ASSETS to its folder"
export WEIR_ASSETS=$assets
"${CARGO:-cargo}" build --release --locked -p weir -p weir-benches --bin weir --bin partitioned
exec target/release/partitioned "$@"
