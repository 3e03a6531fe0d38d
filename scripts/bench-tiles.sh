#!/usr/bin/env bash
# Tiles on a clip of 3840 x 2160 with small objects, beside SAHI's own package: bench-tiles.sh [--frames 50] [--no-sahi] [--no-load]; see
# bench-tiles.py. Renders sixteen streets and puts them beside each other, the first time, and makes a virtual environment for SAHI in
# out/tiles; SAHI_PYTHON names another Python that has it. Needs ffmpeg and `weir` (WEIR names another one).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

command -v ffmpeg >/dev/null || fail "the benchmark needs the program ffmpeg"
mkdir -p out/tiles
render=${RENDER:-${CARGO_TARGET_DIR:-target}/release/render}
if [ ! -x "$render" ]; then
    "${CARGO:-cargo}" build --release --locked -p weir-videos --bin render
fi
python=${SAHI_PYTHON:-out/tiles/venv/bin/python}
case " $* " in
*" --no-sahi "*) ;;
*)
    if [ ! -x "$python" ]; then
        say "installing SAHI into out/tiles/venv"
        python3 -m venv out/tiles/venv
        out/tiles/venv/bin/pip install --quiet sahi==0.12.8 onnxruntime opencv-python-headless
    fi
    ;;
esac
RENDER=$render SAHI_PYTHON=$python exec python3 scripts/bench-tiles.py "$@"
