#!/usr/bin/env bash
# Trains the models that ship, from scratch: train-models.sh [NET ...]; all where none is named.
# Stills and scenes are rendered into out/training, the nets and their cards go into models/. PyTorch comes by pip into a virtual
# environment of its own; nothing at run time needs it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

work=out/training
python=$work/python/bin/python
if [ ! -x "$python" ]; then
    say "Python with PyTorch into $work/python"
    mkdir -p "$work"
    python3 -m venv "$work/python" || fail "a virtual environment cannot be made; Debian has it in python3-venv"
    "$work/python/bin/pip" install --quiet --requirement models/training/requirements.txt
fi

"${CARGO:-cargo}" build --release --locked -p weir-videos --bin render
render=${CARGO_TARGET_DIR:-target}/release/render
# stills WORLD PART COUNT [LIGHT]
stills() {
    local folder=$work/$1-${4:+$4-}$2
    [ -f "$folder/truth.jsonl" ] && return
    say "$3 stills of the world $1, part $2${4:+, light $4}"
    "$render" stills "$1" --part "$2" --count "$3" ${4:+--light "$4"} --out "$folder"
}
gallery() {
    local folder=$work/gallery-$1
    [ -d "$folder" ] && return
    say "faces of 600 people, part $1"
    "$render" gallery --part "$1" --people 600 --out "$folder"
}
if [ "$*" != scribe ]; then
    gallery train
    gallery validation
    stills street train 4000
    stills street validation 500
    for light in night rain; do
        stills street train 800 "$light"
        stills street validation 150 "$light"
    done
    stills live train 4000
    stills live validation 500
    stills game train 3000
    stills game validation 400
fi

# What scribe learns from: more lines than it takes are not read.
scenes() {
    local file=$work/scenes/$1.jsonl
    [ -f "$file" ] && return
    say "$2 scenes in words, part $1"
    "$render" scenes --part "$1" --count "$2" --out "$file"
}
scenes train 170000
scenes validation 4000

"$python" models/training/train.py --stills "$work" --out models "$@"
if [[ $# -eq 0 || " $* " == *" scribe "* ]]; then
    say "nets that predict how long what scribe says becomes"
    "$python" models/training/lengths.py --scenes "$work/scenes" --out models/scribe-lengths.json
fi
