#!/usr/bin/env bash
# SPDX-License-Identifier: PostgreSQL
# Write requirements.lock (what a user needs: runtime, lab, web) and requirements-dev.lock
# (that, and what the tests need), with versions and hashes and no index address.
# Needs uv, which nothing else here needs:  pip install uv && make lock
set -eu
cd "$(dirname "$0")/.."

compile()
{
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-emit-find-links --no-annotate "$@"
}

# The lab's own, without pgflash, which is in no index.
lab=$(python3 -c 'import tomllib; print("\n".join(one for one in tomllib.load(
	open("lab/pyproject.toml", "rb"))["project"]["dependencies"] if not one.startswith("pgflash")))')
# hatchling and editables build the editable install without another download.
printf '%s\nhatchling\neditables\n' "$lab" |
	compile --extra web -o requirements.lock pyproject.toml -
compile --extra web --extra dev --extra browser -c requirements.lock \
	-o requirements-dev.lock pyproject.toml requirements.lock
