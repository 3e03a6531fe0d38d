#!/usr/bin/env bash
# Exports of detectors by their own frameworks, read by every head: bench-heads.sh [--rows yolo26 detr] [--fresh] [--no-cross]; see
# bench-heads.py. Makes a virtual environment in out/heads with some gigabytes of frameworks, the first time; HEADS_PYTHON names
# another Python that has them. Needs the asset pack and `weir` (WEIR names another one).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

assets=$(asset_pack)
[ -n "$assets" ] || fail "the benchmark needs the asset pack: set WEIR_ASSETS to its folder"
python=${HEADS_PYTHON:-out/heads/venv/bin/python}
if [ ! -x "$python" ]; then
    say "installing frameworks into out/heads/venv"
    python3 -m venv out/heads/venv
    out/heads/venv/bin/pip install --quiet torch==2.8.0 torchvision==0.23.0 ultralytics transformers onnx onnxruntime onnxslim onnxscript scipy
fi
# Nothing is fetched while it runs: no weights, no versions.
export OMP_NUM_THREADS=1 YOLO_OFFLINE=true YOLO_AUTOINSTALL=false HF_HUB_OFFLINE=1 YOLO_CONFIG_DIR="$PWD/out/heads"
exec nice -n 10 "$python" scripts/bench-heads.py "$assets" "$@"
