#!/usr/bin/env bash
# The test command: builds `xtask` (crates/xtask) and runs its lanes. `./test.sh --help` and `./test.sh --list` say more.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v cargo >/dev/null; then
    echo 'test.sh: cargo is missing; hint: install a Rust toolchain, 1.95 or later' >&2
    exit 1
fi
cargo build --quiet --profile ci --package xtask
exec "${CARGO_TARGET_DIR:-target}/ci/xtask" test "$@"
