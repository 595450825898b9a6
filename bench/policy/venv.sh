#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Make build/bench-policy, the environment that holds libcachesim, or do nothing if it exists and is
# current: .ready is a copy of the lock file, written last.
set -eu
cd "$(dirname "$0")/../.."
lock=bench/policy/requirements.lock
env=build/bench-policy

cmp -s "$lock" "$env/.ready" && exit 0
echo "Installing $lock into $env (once) ..."
rm -rf "$env"
.venv/bin/python -m venv "$env"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# Without its other dependencies, which are for traces in object stores.
"$env/bin/python" -m pip install --quiet --no-deps --require-hashes -r "$lock"
cp "$lock" "$env/.ready"
