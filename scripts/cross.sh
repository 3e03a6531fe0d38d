#!/usr/bin/env bash
# The command for aarch64, cross-compiled on an x86-64 Debian, and what of it is short enough to run under emulation: the tests of crates
# without I/O on media, and `weir` on a picture and on some frames. What ran, and how long each took, is in out/cross/report.txt.
# Builds are those of the profile dev: a release takes longer, and the code generator is the same. Release builds for aarch64
# are the wheel (CROSS=aarch64 WHEEL=1 make python), which is tried in the same way.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
. scripts/cross-environment.sh

# Crates whose tests need no FFmpeg, network or program of the target. Left out for their length are the simulator's and the edited inputs
# (`fuzz_`).
crates=(types policy planner control flow files config analytics graph)
# Built once and run once: see .ci/run.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_LTO=off
# Random cases of each property: an emulated processor is many times slower, and the same tests run with all cases without it.
export PROPTEST_CASES=${PROPTEST_CASES:-16}

report=out/cross/report.txt
mkdir -p out/cross
: >"$report"

# stage NAME COMMAND...: runs the command, and writes its seconds into the report.
stage() {
    local name=$1 began=$SECONDS
    shift
    say "$name"
    "$@" || {
        printf 'FAILED %5d s  %s\n' $((SECONDS - began)) "$name" >>"$report"
        fail "$name failed: $*"
    }
    printf 'ok     %5d s  %s\n' $((SECONDS - began)) "$name" >>"$report"
}

packages=("${crates[@]/#/weir-}")
packages=("${packages[@]/#/--package=}")
cargo_cross() {
    "${CARGO:-cargo}" "$1" --locked --target "$cross_target" "${@:2}"
}

stage "packages, Rust's library and ONNX Runtime for aarch64" scripts/cross-setup.sh
stage "the command, cross-compiled" cargo_cross build --package=weir
program=${CARGO_TARGET_DIR:-target}/$cross_target/debug/weir
machine=$(readelf --file-header "$program" | sed -n 's/^ *Machine: *//p')
[ "$machine" = AArch64 ] || fail "$program is for $machine"
stage "weir on a picture and on eight frames, under emulation" scripts/cross-try.sh command "${cross_emulator[@]}" "$program"
stage "tests of ${crates[*]}, cross-compiled" cargo_cross test "${packages[@]}" --tests --no-run
stage "tests of ${crates[*]}, under emulation" cargo_cross test "${packages[@]}" --tests --no-fail-fast -- --skip fuzz_
say "done; $report has:"
cat "$report"
