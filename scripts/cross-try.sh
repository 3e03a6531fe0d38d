#!/usr/bin/env bash
# Tries the command of a build for aarch64 under emulation: cross-try.sh NAME COMMAND... runs COMMAND, which is the emulator with what it
# runs, on eight frames of a clip that ships and on a picture of it. What it finds is compared with the clip's ground truth, and its files
# are in out/cross/NAME. Needs what cross-setup.sh installs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
[ $# -ge 2 ] || fail "usage: cross-try.sh NAME COMMAND..."
out=out/cross/$1
shift

# First frame of the clip that is taken, at 25 frames a second: street and pavement are full there.
readonly FIRST=100 FRAMES=8
rm -rf "$out"
mkdir -p "$out"
cut=(ffmpeg -nostdin -loglevel error -y -ss $((FIRST / 25)) -i videos/street-day.mp4)
"${cut[@]}" -frames:v $FRAMES -an -c:v libx264 -crf 12 -pix_fmt yuv420p "$out/street.mp4"
"${cut[@]}" -frames:v 1 "$out/street.png"
# The smallest detector that ships. An emulated processor is many times slower than a real one: no frame is dropped for that.
cat >"$out/graph.toml" <<'END'
[app]
name = "cross"
slo = "60s"

[sources.street]
uri = "street.mp4"
mode = "lossless"

[models.detector]
model = "embedded:street-detector-small"
batch = [1]

[modules.detect]
operator = "detect"
model = "detector"
inputs = ["street"]

[modules.tracks]
operator = "track"
inputs = ["detect"]

[sinks.events]
type = "jsonl"
path = "events.jsonl"
inputs = ["tracks"]
END

ORT_DYLIB_PATH=$PWD/.runtime/onnxruntime-aarch64/libonnxruntime.so
export ORT_DYLIB_PATH

# try FILE ARGUMENT...: the command with the arguments, its output in FILE; an emulator that hangs is ended after ten minutes.
try() {
    local file=$out/$1 began=$SECONDS
    shift
    timeout --kill-after=10 600 "${command[@]}" "$@" >"$file" 2>"$file.err" || {
        tail -20 "$file" "$file.err" >&2
        fail "weir $1 failed under emulation; all of its output is in $file and $file.err"
    }
    say "weir $1: $((SECONDS - began)) s under emulation"
}
command=("$@")
try version.txt --version
say "$(head -1 "$out/version.txt")"
try check-quick.txt check --quick apps/traffic-monitoring/demo.toml
try check.txt check "$out/graph.toml"
try detect.jsonl detect "$out/graph.toml" "$out/street.png"
try replay.txt replay "$out/graph.toml" --speed max --out "$out/replay"
python3 scripts/cross-compare.py videos/street-day.truth.jsonl $FIRST 1 "$out/detect.jsonl"
python3 scripts/cross-compare.py videos/street-day.truth.jsonl $FIRST $FRAMES "$out/replay/events.jsonl"
