#!/usr/bin/env bash
# What a thousand idle connections to the API cost; see benches/soak/idle_connections.py.
set -euo pipefail
cd "$(dirname "$0")/.."

exec python3 benches/soak/idle_connections.py "${WEIR:-${CARGO_TARGET_DIR:-target}/release/weir}" out/idle-connections
