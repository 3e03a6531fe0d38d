# shellcheck shell=bash
# How the scripts speak: one line for what they do, one for why they cannot. Sourced, not run.

say() {
    printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

# The asset pack: WEIR_ASSETS, else the folder beside the checkout. Prints nothing where there is none.
asset_pack() {
    local folder
    for folder in "${WEIR_ASSETS:-}" ../shared/assets; do
        if [ -n "$folder" ] && [ -d "$folder/models" ]; then
            (cd "$folder" && pwd)
            return
        fi
    done
}
