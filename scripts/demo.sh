#!/usr/bin/env bash
# Shows one application on one clip of the asset pack: demo.sh traffic-monitoring|live-video
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

app=${1:-traffic-monitoring}
case "$app" in
traffic-monitoring) clip=o4n_traffic_city_640x360.mp4 ;;
live-video) clip=o4n_people_faces_800x450.mp4 ;;
*) fail "there is no demo of \"$app\"; APP is traffic-monitoring or live-video" ;;
esac

assets=$(asset_pack)
[ -n "$assets" ] || fail "the demo needs the asset pack: set WEIR_ASSETS to its folder. Without it, take a video of" \
    "your own: weir models pull && weir replay apps/$app/graph.toml VIDEO.mp4 --out out/demo"
[ -f "$assets/videos/$clip" ] || fail "the asset pack in $assets has no videos/$clip"

out=out/demo/$app
mkdir -p "$out"
target=${CARGO_TARGET_DIR:-target}
WEIR_MODEL_MIRROR=${WEIR_MODEL_MIRROR:-$assets/models} \
    "$target/release/weir" replay "apps/$app/graph.toml" "$assets/videos/$clip" --out "$out"

echo
echo "events: $out/events.jsonl"
echo "video:  $out/${clip%.*}.mp4"
