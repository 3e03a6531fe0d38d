#!/usr/bin/env bash
# Unpacks axe.min.js from the pinned package of npm to .runtime/axe/, where the tests of the page find it. Package and checksum are
# in axe.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

pins=scripts/axe.txt
target=.runtime/axe
stamp=$target/pins.txt

# The pins that were unpacked lie beside it: the same pins, the same file.
if cmp -s "$pins" "$stamp" && [ -e "$target/axe.min.js" ]; then
    exit 0
fi

mapfile -t pinned < <(grep -v '^#' "$pins")
package=${pinned[0]} sum=${pinned[1]}
part=.runtime/axe.part
rm -rf "$part"
mkdir -p "$part"
trap 'rm -rf "$part"' EXIT

say "fetching $package"
archive=$(npm pack --silent --pack-destination "$part" "$package") ||
    fail "$package could not be fetched by npm (see above)"
echo "$sum  $part/$archive" | sha512sum --check --status ||
    fail "$package is not the one that was pinned: its sha512 differs from that in $pins"
tar --extract --gzip --file "$part/$archive" --directory "$part" --strip-components 1 package/axe.min.js package/LICENSE
rm "$part/$archive"
cp "$pins" "$part/pins.txt"
rm -rf "$target"
mv "$part" "$target"
say "axe.min.js is in $target"
