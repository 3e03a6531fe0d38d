#!/usr/bin/env bash
# Builds the package for Python into a virtual environment, and runs its tests there. WHEEL=1 makes a release wheel in dist/ instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh

python=${WEIR_PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "Python 3.10 or newer is needed; WEIR_PYTHON names one"
environment=out/python
[ -x $environment/bin/python ] || "$python" -m venv $environment || fail "venv is missing: apt-get install python3-venv"
$environment/bin/pip install --quiet --requirement bindings/python/requirements.txt
# Beside what the main workspace has built: most crates of others are the same there.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export VIRTUAL_ENV=$PWD/$environment PATH=$PWD/$environment/bin:$PATH

if [ "${WHEEL:-}" = 1 ]; then
    maturin build --release --manifest-path bindings/python/Cargo.toml --out dist
    exit
fi
assets=$(asset_pack)
if [ -n "$assets" ]; then
    export WEIR_ASSETS=$assets
else
    unset WEIR_ASSETS
    say "no asset pack (WEIR_ASSETS): tests that need it skip"
fi
maturin develop --quiet --manifest-path bindings/python/Cargo.toml
cd bindings/python
exec python -m pytest "$@"
