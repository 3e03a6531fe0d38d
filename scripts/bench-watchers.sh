#!/usr/bin/env bash
# What fifty watchers of the page cost; see benches/soak/watchers.py.
set -euo pipefail
cd "$(dirname "$0")/.."

exec python3 benches/soak/watchers.py "${WEIR:-${CARGO_TARGET_DIR:-target}/release/weir}" out/watchers
