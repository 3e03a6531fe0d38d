#!/usr/bin/env bash
# Whether overload changes what is said: bench-accuracy.sh traffic-monitoring|live-video|game-analysis
# First the shipped clip as an archive, which shows how many frames a second this machine sustains; then as so many
# cameras that twice as much is offered, for a minute. Of delivered frames, both must say the same to within a point.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

app=${1:-traffic-monitoring}
case "$app" in
traffic-monitoring) clip=street-day ;;
live-video) clip=live-room ;;
game-analysis) clip=game-match ;;
*) fail "there is no clip of \"$app\"; it is traffic-monitoring, live-video or game-analysis" ;;
esac
weir=${CARGO_TARGET_DIR:-target}/release/weir
score=("$weir" score "apps/$app/demo.toml" --truth "videos/$clip.truth.jsonl" --out "out/accuracy/$app")
mkdir -p "out/accuracy/$app"

say "$app, unloaded"
begin=$EPOCHREALTIME
"${score[@]}" --speed max
seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}')
frames=$(($(wc -l <"videos/$clip.truth.jsonl") - 1))
# Clips have 25 frames a second.
streams=$(awk -v n="$frames" -v s="$seconds" 'BEGIN {print int(2 * n / s / 25 + 0.999)}')

say "$app, overloaded: $(awk -v n="$frames" -v s="$seconds" 'BEGIN {printf "%.0f", n / s}') frames a second are sustained," \
    "$streams cameras offer $((streams * 25))"
"${score[@]}" --streams "$streams" --loop --duration 60s
