#!/usr/bin/env bash
# Shows one application: demo.sh traffic-monitoring|live-video|game-analysis
# On the models and the clip that ship, held against what is true of the clip. With PUBLIC=1 on public models and a clip
# of the asset pack instead (WEIR_ASSETS).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

app=${1:-traffic-monitoring}
case "$app" in
traffic-monitoring) clip=street-day public=o4n_traffic_city_640x360.mp4 ;;
live-video) clip=live-room public=o4n_people_faces_800x450.mp4 ;;
game-analysis) clip=game-match public= ;;
*) fail "there is no demo of \"$app\"; APP is traffic-monitoring, live-video or game-analysis" ;;
esac
out=out/demo/$app
mkdir -p "$out"
weir=${CARGO_TARGET_DIR:-target}/release/weir

if [ "${PUBLIC:-0}" = 1 ]; then
    [ -n "$public" ] || fail "there are no public models for $app; leave PUBLIC out"
    assets=$(asset_pack)
    [ -n "$assets" ] || fail "public models and clips come from the asset pack: set WEIR_ASSETS to its folder, or take" \
        "a video of your own: weir models pull && weir replay apps/$app/graph.toml VIDEO.mp4 --out $out"
    [ -f "$assets/videos/$public" ] || fail "the asset pack in $assets has no videos/$public"
    clip=${public%.*}
    WEIR_MODEL_MIRROR=${WEIR_MODEL_MIRROR:-$assets/models} \
        "$weir" replay "apps/$app/graph.toml" "$assets/videos/$public" --out "$out"
else
    say "models and clip are synthetic, rendered and trained by this repository; for public models on a video of yours:" \
        "weir models pull && weir replay apps/${app/game-analysis/live-video}/graph.toml VIDEO.mp4"
    "$weir" score "apps/$app/demo.toml" --truth "videos/$clip.truth.jsonl" --out "$out"
fi

echo
echo "events: $out/events.jsonl"
echo "video:  $out/$(ls -t "$out" | grep -m1 '\.mp4$')"
