#!/usr/bin/env bash
# Weir beside other programs on the same cameras and the same detector: bench-peers.sh [--seconds 30] [--cameras 1 4] [--only weir] ...;
# see bench-peers.py. Peers that cannot be installed are reported.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
[ -n "$assets" ] || fail "the benchmark needs the asset pack: set WEIR_ASSETS to its folder"

# environment NAME REQUIREMENTS: a virtual environment in .runtime/peers/NAME with the packages of a file, installed unless they are there.
environment() {
    local folder=.runtime/peers/$1 requirements=benches/reference/$2
    cmp --quiet "$requirements" "$folder/installed" && return
    say "installing $requirements into $folder"
    mkdir -p .runtime/peers
    rm -f "$folder/installed"
    if "${WEIR_PYTHON:-python3}" -m venv "$folder" &&
        "$folder/bin/pip" install --quiet --requirement "$requirements" >"$folder/install.log" 2>&1; then
        cp "$requirements" "$folder/installed"
    else
        say "$requirements cannot be installed: see $folder/install.log"
    fi
}

environment plain requirements.txt
environment inference peer-inference.txt
exec python3 scripts/bench-peers.py "$assets" "$@"
