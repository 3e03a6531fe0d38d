#!/usr/bin/env bash
# Installs by apt what is missing of: a C toolchain, libclang (for bindgen), the FFmpeg development files, the ffmpeg
# program (for the demo and tests), Python with NumPy (for pip, and tests of operators in Python), an RTSP server with what serves H.264 and AAC (for tests), Chromium
# with its driver and npm (for tests of the page), promtool (for tests of metrics), an MQTT broker, a NATS server and OpenSSL (for tests of
# sinks). Asks no package manager anything while nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

missing=()

# need PACKAGE COMMAND...: the package is missing unless the command succeeds.
need() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

# libclang.so in the places where bindgen looks; clang's own package does not bring it.
have_libclang() {
    local places=("${LIBCLANG_PATH:-/usr/lib}" /usr/lib/llvm-*/lib /usr/lib/*-linux-gnu /usr/lib64)
    compgen -G "${places[0]}/libclang*.so*" && return
    local place
    for place in "${places[@]:1}"; do
        compgen -G "$place/libclang*.so*" && return
    done
    return 1
}

have_library() {
    pkg-config --exists "$1"
}

# Debian's own Python has what its packages bring, not one that stands before it in PATH.
have_rtsp_server() {
    /usr/bin/python3 -c 'import gi
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GstRtspServer'
}

# Tests run operators in Python by the first of these that has NumPy.
have_numpy() {
    python3 -c 'import numpy' || /usr/bin/python3 -c 'import numpy'
}

# An element of GStreamer.
have_element() {
    /usr/bin/python3 -c 'import sys, gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
sys.exit(Gst.ElementFactory.find(sys.argv[1]) is None)' "$1"
}

need build-essential command -v cc
need build-essential command -v make
need pkg-config command -v pkg-config
need clang command -v clang
need libclang-dev have_libclang
for library in avcodec avformat avutil avfilter avdevice swscale swresample; do
    need "lib$library-dev" have_library "lib$library"
done
need ffmpeg command -v ffmpeg
need mosquitto test -x /usr/sbin/mosquitto
need npm command -v npm
need prometheus command -v promtool
need nats-server test -x /usr/sbin/nats-server
need openssl command -v openssl
need python3 command -v python3
need python3-pip python3 -m pip --version
need python3-numpy have_numpy
need python3-gi /usr/bin/python3 -c 'import gi'
need gir1.2-gst-rtsp-server-1.0 have_rtsp_server
need gstreamer1.0-plugins-base have_element appsink
need gstreamer1.0-plugins-good have_element rtph264pay
need gstreamer1.0-plugins-bad have_element h264parse
need chromium command -v chromium
need chromium-driver command -v chromedriver

[ ${#missing[@]} -gt 0 ] || exit 0

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
command -v apt-get >/dev/null ||
    fail "this system has no apt-get; install the equivalents of: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "run as root, or install: ${missing[*]}"
    as_root=(sudo)
fi
say "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
