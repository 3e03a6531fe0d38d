#!/usr/bin/env bash
# The service at twice what the machine sustains, while everything goes wrong; see benches/soak/soak.py.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

say "${SOAK_SECONDS:-1800} seconds; what it leaves is in out/soak"
exec python3 benches/soak/soak.py "${WEIR:-${CARGO_TARGET_DIR:-target}/release/weir}" out/soak
