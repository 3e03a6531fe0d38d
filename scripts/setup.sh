#!/usr/bin/env bash
# Everything that a build needs beside Rust. What is there already is left alone: a second run does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

command -v cargo >/dev/null || fail "cargo is missing: install Rust 1.92 or newer by rustup"
scripts/system-packages.sh
scripts/onnxruntime.sh
scripts/axe.sh
