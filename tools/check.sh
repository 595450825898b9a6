#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# The checks before a commit, in less than three minutes: formats, lint, types,
# import rules, house rules, quick tests.  `make check` calls it with .venv in PATH.
# All steps run; the failures are named at the end.
set -u
trap 'exit 130' INT # not the next step
cd "$(dirname "$0")/.."

failures=()

step()
{
	printf -- '---- %s\n' "$*" | cut -c1-100
	"$@" || failures+=("$1")
}

python_code=()
for folder in python lab tests tools bench; do
	[ -d "$folder" ] && python_code+=("$folder")
done
mapfile -t c_code < <(git -c safe.directory='*' ls-files '*.[ch]')

[ ${#c_code[@]} -eq 0 ] || step clang-format --dry-run -Werror "${c_code[@]}"
step ruff format --check --quiet "${python_code[@]}"
step ruff check --quiet "${python_code[@]}"
step mypy python/pgflash lab/pgflash_lab tests tools bench/pg bench/peers
step lint-imports --no-logo
step tools/tidy.py
step pytest --quiet $(ls -d tests/unit tests/property tests/docs 2>/dev/null) -m "not soak"

if [ ${#failures[@]} -gt 0 ]; then
	printf 'make check FAILED: %s\n' "${failures[*]}"
	exit 1
fi
echo 'make check passed'
