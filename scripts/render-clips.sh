#!/usr/bin/env bash
# Renders the clips that are part of the repository, with their truth, and the gallery, into videos/. The same build on
# the same machine gives the same bytes; clips that are there already are replaced.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

out=${1:-videos}
"${CARGO:-cargo}" build --release --locked -p weir-videos --bin render
render=${CARGO_TARGET_DIR:-target}/release/render

clip() {
    local name=$1
    shift
    "$render" "$@" --crf 23 --out "$out/$name.mp4"
}

clip street-day street --light day --seconds 20 --seed 1
clip street-dusk street --light dusk --seconds 8 --seed 2
clip live-room live --seconds 12 --seed 4
clip live-evening live --seconds 8 --seed 0
clip game-match game --seconds 12 --seed 9

# A whole folder is made and then takes the place of the old one.
rm -rf "$out/gallery.new"
"$render" gallery --out "$out/gallery.new"
rm -rf "$out/gallery"
mv "$out/gallery.new" "$out/gallery"

say "$(du -sh "$out"/*.mp4 "$out"/*.truth.jsonl "$out/gallery" | awk '{print $2, $1}' | paste -sd, | sed 's/,/, /g')"
