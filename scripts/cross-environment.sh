# shellcheck shell=bash
# Settings of cargo, pkg-config and bindgen for aarch64, as Debian's cross-compiler and its packages for arm64 lay files out. Each names
# the target, so that build scripts and macros, which run on this machine, are built as always. Sourced, not run.

cross_target=aarch64-unknown-linux-gnu
cross_triple=aarch64-linux-gnu
# The oldest processor that Weir is tried on, that of a Raspberry Pi 4. The emulator's default has instructions that few boards have.
# The loader and all libraries are those of Debian's packages for arm64, which lie in the root: no other root (-L) is named.
cross_emulator=(qemu-aarch64 -cpu cortex-a72)

# A machine that lacks the pinned toolchain and cannot fetch it uses the one that it has.
cargo --version >/dev/null 2>&1 || export RUSTUP_TOOLCHAIN=stable

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cross_triple-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="${cross_emulator[*]}"
# Libraries that FFmpeg's libraries need, some in folders that only the loader of the target finds, are no concern of this link.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C link-arg=-Wl,--allow-shlib-undefined"
export CC_aarch64_unknown_linux_gnu=$cross_triple-gcc
export CXX_aarch64_unknown_linux_gnu=$cross_triple-g++
export AR_aarch64_unknown_linux_gnu=$cross_triple-ar
export PKG_CONFIG_ALLOW_CROSS_aarch64_unknown_linux_gnu=1
export PKG_CONFIG_LIBDIR_aarch64_unknown_linux_gnu=/usr/lib/$cross_triple/pkgconfig:/usr/share/pkgconfig
# Headers of the C library for aarch64; those of FFmpeg are named by pkg-config.
export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="-isystem /usr/$cross_triple/include"
