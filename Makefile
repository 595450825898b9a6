# SPDX-License-Identifier: PostgreSQL
# The entry point for people.  Each room has its own Makefile (core, emulator,
# extension); this one makes the environment, calls them in order, and runs what
# spans rooms.  `make help` lists the targets.
#
#	PG=15..19       the PostgreSQL major to build and test against (18); 18-uring: one built with io_uring
#	PG_CONFIG=PATH  build against this installation instead of one of tools/pg.py
#	PREFIX=FOLDER   make install: where the manual and completions go, below share (/usr/local)
#	V=1             show the commands and every test's name
#	JOBS=n          so many tests at a time (twelve for two processors)
#	TRACES=DIR      the streams of make bench-policy; see bench/policy/README.md
#	RUNS="DIR ..."  the runs of make predictions
#	TAP=NAME        make postgres-check: only TAP scripts whose name has this
#	TIME=60 SEED=n  how long to fuzz; repeat one fuzz run

ifneq ($(words $(CURDIR)),1)
$(error make cannot work in a folder with a space in its name: move "$(CURDIR)")
endif

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
TIME ?= 60
TRACES ?= ../shared/traces

# A room is built if it exists.
C_ROOMS := $(patsubst %/Makefile,%,$(wildcard core/Makefile emulator/Makefile))
BENCH_ROOMS := $(patsubst %/Makefile,%,$(wildcard bench/*/Makefile))
PYTHON_CODE := $(wildcard python lab tests tools bench)
C_CODE = $(shell git -c safe.directory='*' ls-files '*.[ch]')

ifeq ($(V),1)
Q :=
else
Q := @
MAKEFLAGS += --no-print-directory --silent
endif

# PG is empty unless it was asked for: then `make test` means all majors.
MAJOR = $(or $(PG),18)
pg_config = $(or $(PG_CONFIG),$(shell '$(BIN)/python' tools/pg.py $(MAJOR)))

.PHONY: all help demo measure example-report images test test-programs build rooms extension install uninstall walk check generate fmt fuzz soak bench bench-policy bench-throttled bench-peers \
	fault-matrix matrix hostile monitoring-check postgres-check extensions-check clean hooks lock venv venv-dev predictions arm64 foreign \
	deb deb-check wheels release older-check

help:
	@echo 'make demo            a TPC-C-like load on emulated disks, with flash and without, and its report'
	@echo 'make measure         the demo on your devices, and its results as one file (HDD=DIR FLASH=DIR, PRESET=, WAREHOUSES=)'
	@echo 'make example-report  write docs/examples/: a report and a comparison, in eight minutes'
	@echo 'make predictions     write the predictions of tests and docs/guide/advise.md, from runs in out/ (RUNS="DIR ...")'
	@echo 'make images          write docs/images/: the live page under a small load, the heads of reports (2 minutes)'
	@echo 'make test            all tests on PostgreSQL 18, and parts on 15, 16, 17 and 19 (PG=17: all on that one)'
	@echo 'make build           core, emulator, extension and the pgflash command'
	@echo 'make install         install the extension into your server (sudo, PG_CONFIG=/usr/bin/pg_config)'
	@echo 'make uninstall       remove it (sudo, PG_CONFIG=/usr/bin/pg_config)'
	@echo 'make check           formats, lint, types, import rules, house rules, quick tests (under 3 minutes)'
	@echo 'make generate        write the files that depend on definitions/'
	@echo 'make fmt             clang-format and ruff format'
	@echo 'make fuzz            random operations against a model (TIME=60 seconds, SEED=n repeats)'
	@echo 'make soak            long crash and fuzz rounds'
	@echo 'make bench           measure and print the tables (bench/results/)'
	@echo 'make fault-matrix    everything that can go wrong with the cache file, as a table (bench/results/faults.txt)'
	@echo 'make hostile         repeat attacks on the server, its files and its users (as root: all of them)'
	@echo 'make monitoring-check  raise every alert by its fault, with Prometheus and Alertmanager'
	@echo 'make bench-policy    our replacement policy beside all of libcachesim (TRACES=DIR, QUICK=1)'
	@echo 'make bench-throttled a server on a volume of 500 reads a second: with the cache and without, and emulated (as root, 20 minutes)'
	@echo 'make bench-peers     beside bcache and dm-cache, in a virtual machine (KVM or User-Mode Linux; 75 minutes, ARGS=--quick)'
	@echo 'make postgres-check  PostgreSQL'"'"'s own tests, TAP suites too, with the cache on (PG_SRC=DIR, a source tree)'
	@echo 'make extensions-check  test beside each extension that Debian packages for 15; write docs/reference/extensions.md'
	@echo 'make older-check     an upgrade from the library of 0.1 and back, built from the history'
	@echo 'make matrix          build and test on Debians of several ages (as root, with debootstrap; ROWS="sid")'
	@echo 'make walk            run the commands of README and guides on a fresh Debian 12 (as root, with debootstrap)'
	@echo 'make deb             Debian packages of the last commit, in out/deb (DEB=FOLDER)'
	@echo 'make deb-check       build, install and purge them on Debians of several ages (as root, with debootstrap; ROWS="sid")'
	@echo 'make wheels          wheels of pgflash and the lab, in out/wheels; each is installed alone'
	@echo 'make release         the files of a release, of the last commit, in out/release: tarball, sums, SBOM, notes'
	@echo 'make arm64           core'"'"'s tests and those of the extension'"'"'s parts for 64-bit ARM, by qemu-user'
	@echo 'make foreign         real servers for arm64 and for Alpine Linux: load, hits, kill -9 (as root, with Maven)'
	@echo 'make hooks           run make check before every commit, and check its subject'
	@echo 'make lock            write the requirements files (needs uv)'
	@echo 'make clean           remove what was built; .venv, the PostgreSQL cache, and results of the lab and bench-peers in out stay'
	@echo
	@echo 'PG=15..19 picks the server, PG_CONFIG=PATH names one, V=1 is verbose.'

# ---- environment

venv:
	$(Q)tools/venv.sh requirements.lock

venv-dev:
	$(Q)tools/venv.sh requirements-dev.lock

lock:
	$(Q)tools/lock.sh

# ---- build

build: venv rooms extension

rooms:
	$(Q)set -e; for room in $(C_ROOMS); do $(MAKE) -C $$room all; done

# Tests install into private copies (tests/support); this is for the lab and for people.
extension: venv rooms
	$(Q)+config='$(pg_config)'; test -n "$$config" && tools/install.sh extension "$$config"

# The extension for a server of your own, needing no Python; PGXN's client asks for it.
all:
	$(Q)+$(MAKE) -C extension all PG_CONFIG='$(or $(PG_CONFIG),pg_config)'

# For people with their own server; needs no Python.
install uninstall: export PREFIX := $(PREFIX)
install uninstall:
	$(Q)+tools/install.sh $@ '$(PG_CONFIG)'

# ---- see it, trust it

demo: build
	$(Q)'$(BIN)/pgflash' lab run oltp-approaches --preset demo --resume unfinished \
		--pg-config "$$(command -v '$(pg_config)')"

# On real devices: folders on the disk that the data is on and on the flash; a database of twice the memory.
measure: build
	$(Q)test -d '$(HDD)' && test -d '$(FLASH)' || { echo 'pgflash: name two folders: make measure HDD=/mnt/array FLASH=/mnt/nvme' >&2; exit 2; }
	$(Q)warehouses='$(WAREHOUSES)'; : $${warehouses:=$$('$(BIN)/python' -c \
		'from pgflash.machine.host import memory_bytes; print(memory_bytes() * 2 // 105_000_000 + 1)')}; \
	'$(BIN)/pgflash' lab run oltp-approaches --preset $(or $(PRESET),instance) --hdd '$(HDD)' --flash '$(FLASH)' \
		--set warehouses=$$warehouses --set shared_buffers=$$((warehouses * 13 + 16))MB --set cache_size=$$((warehouses * 160 + 64))MB \
		--pg-config "$$(command -v '$(pg_config)')"
	$(Q)'$(BIN)/pgflash' lab export latest

# A real server under the lab's load, with the array alone and with the flash cache.
example-report: build
	$(Q)'$(BIN)/pgflash' lab run oltp-approaches --preset example --out out/example
	$(Q)mkdir -p docs/examples
	$(Q)'$(BIN)/pgflash' report out/example/awr-02-flash-cache.json -o docs/examples/report.html
	$(Q)'$(BIN)/pgflash' compare out/example/awr-01-baseline.json out/example/awr-02-flash-cache.json \
		-o docs/examples/compare.html

# Without RUNS: the newest finished run of each scenario.
predictions: venv
	$(Q)'$(BIN)/pgflash' lab predict $(RUNS) --papers --keep tests/golden/data/predictions
	$(Q)'$(BIN)/python' tools/predictions_to_docs.py

# A real browser on a real server; report.png is of the last make demo.
images: venv-dev rooms
	$(Q)'$(BIN)/python' tests/browser/make_images.py

# Another compiler than ours may warn of more: that must not stop a user's build.
test check: export WERROR := -Werror

# They are compiled while the packages arrive.
test-programs: rooms
	$(Q)+set -e; for room in $(C_ROOMS) extension; do $(MAKE) -C $$room tests; done

test:
	$(Q)+$(MAKE) --jobs=$$(($$(nproc) + 1)) venv-dev test-programs
	$(Q)PG='$(PG)' V='$(V)' JOBS='$(JOBS)' tools/scratch.sh tools/test.sh

check: venv-dev rooms
	$(Q)PATH='$(BIN)':"$$PATH" tools/scratch.sh tools/check.sh

generate: venv
	$(Q)'$(BIN)/python' tools/generate.py

fmt: venv-dev
	$(Q)files='$(C_CODE)'; test -z "$$files" || '$(BIN)/clang-format' -i $$files
	$(Q)'$(BIN)/ruff' format --quiet $(PYTHON_CODE)
	$(Q)'$(BIN)/ruff' check --quiet --fix $(PYTHON_CODE)

fuzz: rooms
	$(Q)$(MAKE) -C core fuzz TIME=$(TIME) SEED=$(SEED)

soak: venv-dev rooms
	$(Q)$(MAKE) -C core fuzz TIME=$(or $(SOAK_TIME),1800) SEED=$(SEED)
	$(Q)'$(BIN)/pytest' -m soak --timeout=7200 --pg-major=$(MAJOR)

# From below to above; the curve only where there are streams to measure it on.
BENCHES = core/bench $(if $(wildcard $(TRACES)/*.u32.xz),core/curve) pg/cost pg/account pg/page pg/scans pg/reads pg/uring pg/restart pg/snapshots pg/sampler pg/files pg/live

bench: build
	$(Q)set -e; number=0; for one in $(BENCHES); do number=$$((number + 1)); \
		echo "---- $$number of $(words $(BENCHES)): bench/$${one%/*}, $${one#*/} ($$(date +%H:%M:%S))"; \
		$(MAKE) -C bench/$${one%/*} $${one#*/} TRACES='$(abspath $(TRACES))' PG_CONFIG='$(pg_config)'; done
	$(Q)test -n '$(wildcard $(TRACES)/*.u32.xz)' || echo 'Left out: the miss-ratio curve, as there are no streams in $(TRACES) (TRACES=DIR).'

bench-policy: venv rooms
	$(Q)bench/policy/venv.sh
	$(Q)'$(BIN)/python' bench/policy/compare.py --traces '$(TRACES)' \
		--python build/bench-policy/bin/python $(if $(QUICK),--quick)

bench-throttled: venv-dev rooms
	$(Q)$(MAKE) -C bench/pg throttled emulated ARGS='$(ARGS)'

bench-peers: venv-dev rooms
	$(Q)PYTHONPATH=python:tests '$(BIN)/python' bench/peers/compare.py --build
	$(Q)bench/peers/vm.sh $(ARGS)

postgres-check: venv-dev rooms
	$(Q)test -n '$(PG_SRC)' || { echo 'Say where the sources are: make postgres-check PG_SRC=DIR'; exit 2; }
	$(Q)major='$(or $(PG),$(shell sed -n "s/^PACKAGE_VERSION='\([0-9]*\).*/\1/p" '$(PG_SRC)/configure' 2>/dev/null))'; \
		rm -rf out/postgres-check; \
		'$(BIN)/pytest' -m postgres_check --pg-src='$(PG_SRC)' --pg-tap='$(TAP)' --pg-major="$$major"; code=$$?; \
		cat out/postgres-check/*.txt; exit $$code

# With the library of 0.1, built from the repository's history.
older-check: venv-dev rooms
	$(Q)'$(BIN)/pytest' -m older_check --pg-major=$(MAJOR) tests/cluster/server/test_catalog_older.py

# Debian's packages are fetched; one server for each.
extensions-check: venv-dev rooms
	$(Q)rm -rf out/extensions-check
	$(Q)'$(BIN)/pytest' -m extensions_check --pg-major=15 --numprocesses=$(or $(JOBS),2) tests/cluster/hooks/test_debian_extensions.py; \
		code=$$?; '$(BIN)/python' tools/extensions_to_docs.py && exit $$code

# What goes wrong with the cache file, and what is reported: all on 18, some on 15.
fault-matrix: venv-dev rooms
	$(Q)rm -rf out/fault-matrix
	$(Q)'$(BIN)/pytest' -q tests/crash/test_fault_matrix.py tests/crash/test_fault_map.py --pg-major=18
	$(Q)'$(BIN)/pytest' -q tests/crash/test_fault_matrix.py -k 'EIO or torn or flip or removed or hangs' --pg-major=15
	$(Q)cat out/fault-matrix/18.txt out/fault-matrix/18-map.txt out/fault-matrix/15.txt | tee bench/results/faults.txt

# Each test is a story: who attacks, what they prepare, what must not happen.
hostile: venv-dev rooms
	$(Q)tools/scratch.sh '$(BIN)/pytest' -v tests/hostile --pg-major=$(MAJOR)

# Prometheus, Alertmanager and exporters, Debian's: the alerts that each fault raises.
monitoring-check: venv-dev rooms
	$(Q)tools/scratch.sh '$(BIN)/pytest' -v tests/crash/test_fault_alerts.py tests/cluster/web/test_monitoring.py \
		tests/unit/tools/definitions --pg-major=$(MAJOR)

# As root, with debootstrap: other compilers, C libraries and servers; MATRIX=FOLDER keeps the Debians.
matrix:
	$(Q)tools/matrix.sh $(MATRIX)

# As root, with debootstrap: the commands of README and the guides, on a separate Debian.
walk:
	$(Q)tools/walk.sh

# ---- packages

# By Debian's own tools, without root: packages of the last commit.
deb:
	$(Q)tools/deb.sh $(DEB)

# As root, with debootstrap: packages are built, installed, tried and purged; DEBS=FOLDER keeps the Debians.
deb-check:
	$(Q)tools/deb_check.sh $(DEBS)

wheels: venv
	$(Q)tools/wheels.sh

# The last commit as a tarball, its sums, its SBOM (CycloneDX) and its notes; needs no more than git and Python.
release:
	$(Q)tools/release.sh $(RELEASE)

# ---- other machines

# With Debian's cross compiler and qemu-user: core's tests, and those of the extension's parts.
arm64:
	$(Q)tools/arm64.sh

# As root, with Maven: servers for arm64 and for Alpine Linux, killed between reads.
foreign: venv
	$(Q)tools/foreign.sh

# ---- housekeeping

hooks:
	$(Q)hooks="$$(git rev-parse --git-path hooks)"; mkdir -p "$$hooks" && \
		printf '#!/bin/sh\nexec make check\n' >"$$hooks/pre-commit" && \
		printf '#!/bin/sh\nexec tools/subject.sh "$$1"\n' >"$$hooks/commit-msg" && \
		chmod +x "$$hooks/pre-commit" "$$hooks/commit-msg" && \
		echo "$$hooks: make check before each commit, and no subject beyond 72 characters."

# What other targets make in out, whose other folders are of the lab and of make bench-peers:
# results, which no build gives back.
MADE = deb deb-check extensions-check fault-matrix image matrix postgres-check release walk wheels

clean:
	$(Q)set -e; for room in $(C_ROOMS) $(BENCH_ROOMS) extension; do $(MAKE) -C $$room clean; done
	$(Q)rm -rf build $(MADE:%=out/%) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
