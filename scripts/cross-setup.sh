#!/usr/bin/env bash
# Everything that cross-compiling to aarch64 and running what comes out of it need on an x86-64 Debian: the cross-compiler, FFmpeg for
# arm64 from Debian (beside that of this machine), the emulator QEMU, Rust's library for aarch64, and ONNX Runtime. A second run does
# nothing. Packages of two architectures must be of one version: apt upgrades those of this machine that are behind.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
. scripts/cross-environment.sh

[ "$(uname -m)" = x86_64 ] ||
    fail "this machine is $(uname -m): cross-compiling is set up on x86_64 alone; on aarch64 itself, make build and make python do"
command -v cargo >/dev/null || fail "cargo is missing: install Rust 1.92 or newer by rustup"

missing=()

# need PACKAGE COMMAND...: the package is missing unless the command succeeds.
need() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

installed() {
    [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

have_libclang() {
    compgen -G "${LIBCLANG_PATH:-/usr/lib/llvm-*/lib}/libclang*.so*"
}

need build-essential command -v cc
need clang command -v clang
need libclang-dev have_libclang
need pkg-config command -v pkg-config
need ffmpeg command -v ffmpeg
need python3 command -v python3
need python3-pip python3 -m pip --version
need python3-venv python3 -c 'import ensurepip, venv'
need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
need g++-aarch64-linux-gnu command -v aarch64-linux-gnu-g++
need qemu-user command -v qemu-aarch64
# Of ONNX Runtime, and of the interpreter that a wheel is tried with.
for library in libstdc++6 libexpat1 zlib1g; do
    need "$library:arm64" installed "$library:arm64"
done
for library in avcodec avdevice avfilter avformat avutil swresample swscale; do
    need "lib$library-dev:arm64" installed "lib$library-dev:arm64"
done

if [ ${#missing[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
        fail "this system has no apt-get; cross-compiling is set up on Debian 12 and 13 alone"
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "run as root, or install: ${missing[*]}"
        as_root=(sudo)
    fi
    architectures=$(dpkg --print-foreign-architectures)
    case " ${architectures//$'\n'/ } " in
    *" arm64 "*) ;;
    *)
        say "adding the architecture arm64 to dpkg"
        "${as_root[@]}" dpkg --add-architecture arm64
        ;;
    esac
    say "installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq </dev/null
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends --no-remove "${missing[@]}" </dev/null ||
        fail "apt could not install the packages above, or would remove others for them; a container of rust:1.95-bookworm takes them"
fi

rust_library=$(rustc --print sysroot)/lib/rustlib/$cross_target/lib
if [ ! -d "$rust_library" ]; then
    command -v rustup >/dev/null || fail "Rust's library for $cross_target is missing, and rustup, which would fetch it"
    say "adding $cross_target to $(rustc --version)"
    rustup target add "$cross_target" || fail "rustup could not add $cross_target (see above)"
fi

CROSS=aarch64 scripts/onnxruntime.sh
