# SPDX-License-Identifier: PostgreSQL
"""The house rules hold in this clone, and each rule finds the fault that it is for."""

import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

import tidy

REPOSITORY = Path(__file__).resolve().parents[2]

#: The rooms of the extension, by their folders.
ROOMS = {path.name for path in (REPOSITORY / "extension" / "src").iterdir() if path.is_dir()}

#: How a good C file begins.
ESSAY = "/*\n * SPDX-License-Identifier: PostgreSQL\n * What it is.\n */\n"


#: How every other file does.
LICENCE = "# SPDX-License-Identifier: PostgreSQL\n"


def complaints(path: str, text: str) -> list[str]:
    """Return the complaints of the rules about one file."""
    source = tidy.Source(path=PurePosixPath(path), text=text)
    return list(tidy.complaints(iter([source])))


def test_the_house_rules_hold() -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "tidy.py"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


BROKEN = {
    "core_knows_no_postgres": ("core/src/x.c", ESSAY + '#include "postgres.h"\n'),
    "core_names_say_their_file": ("core/src/clock.c", ESSAY + "int\nfc_time(void)\n{\n}\n"),
    "core_calls_run_downwards": (
        "core/src/clock.c",
        ESSAY + "static void\nx(void)\n{\n\tfc_read(NULL);\n}\n",
    ),
    "functions_state_their_contracts": (
        "core/src/clock.c",
        ESSAY + "".join(f"void\nfc_clock_{name}(void)\n{{\n}}\n" for name in "abcd"),
    ),
    "c_fits_the_screen": ("core/src/x.c", ESSAY + "/* " + 80 * "-" + " */\n"),
    "errno_is_kept_under_one_name": (
        "extension/src/hooks/x.c",
        ESSAY + "static int\nx(void)\n{\n\tint before = errno;\n}\n",
    ),
    "extension_calls_run_in_no_circle": (
        "extension/src/server/shmem.c",
        ESSAY + "void\nshmem_install(void)\n{\n\t_PG_init();\n}\n",
    ),
    "only_the_bridge_knows_both_worlds": (
        "extension/src/server/views.c",
        ESSAY + '#include "postgres.h"\n#include "fcache/cache.h"\n',
    ),
    "hooks_know_one_another_and_core": (
        "extension/src/hooks/reads.c",
        ESSAY + '#include "server/settings.h"\n',
    ),
    "versions_are_told_apart_in_one_place": (
        "extension/src/hooks/reads.c",
        ESSAY + "#if PG_VERSION_NUM >= 160000\n#endif\n",
    ),
    "c_files_open_with_an_essay": ("core/src/x.c", "int x;\n"),
    "files_name_their_licence": ("tests/x.sql", "SELECT 1;\n"),
    "python_fits_the_screen": (
        "tests/support/x.py",
        LICENCE + '"""It is."""\n\n\ndef x() -> None:\n    """Do it."""\n' + "    print()\n" * 69,
    ),
    "python_files_open_with_a_docstring": ("python/pgflash/x.py", "x = 1\n"),
    "scripts_say_what_they_are": ("tools/x.sh", "#!/bin/sh\nset -e\n"),
    "no_file_knows_this_machine": ("docs/x.md", "see " + "/ho" + "me/somebody/notes\n"),
    "sessions_are_made_in_one_place": (
        "python/pgflash/collect/x.py",
        '"""What it is."""\nconnection = psycopg.connect("")\n',
    ),
    "sql_names_its_functions_in_full": (
        "python/pgflash/collect/x.py",
        '"""What it is."""\n_Q = "select current_setting(\'port\')"\n',
    ),
    "calls_of_the_extension_have_types": (
        "python/pgflash/collect/x.py",
        '"""What it is."""\nX = "select {schema}.pgflash_snapshot_drop(%s)"\n',
    ),
    "commands_write_through_output": (
        "python/pgflash/cli/x.py",
        '"""What it is."""\nclick.echo(name)\n',
    ),
    "roles_are_granted_in_one_place": (
        "python/pgflash/place/x.py",
        '"""What it is."""\nhint = f"GRANT {owner} TO {role};"\n',
    ),
    "no_dependency_has_a_known_hole": (
        "pyproject.toml",
        '[project]\ndependencies = ["h11>=0.16", "idna>=3.7", "jinja2>=3.1", "starlette>=1"]\n',
    ),
    "pages_are_served_behind_the_door": ("tests/x.py", '"""A."""\nuvicorn.' + "run(app)\n"),
    "root_names_no_file_of_others": (
        "python/pgflash/place/x.py",
        '"""What it is."""\npath.unlink()\n',
    ),
    "the_kernel_is_read_in_one_room": (
        "python/pgflash/collect/x.py",
        '"""What it is."""\ntext = Path("/proc/stat").read_text()\n',
    ),
    "limits_are_asked_for_in_one_place": (
        "extension/src/server/x.c",
        ESSAY + "long pages = sysconf(_SC_PHYS_PAGES);\n",
    ),
    "memory_orders_have_their_reason": (
        "core/src/x.c",
        ESSAY + "/* Fences: none. */\n\nstatic int\nx(void)\n{\n"
        "\t/* The answer, before all else. */\n"
        "\treturn atomic_load_explicit(&y, memory_order_relaxed);\n}\n",
    ),
    "numbers_are_printed_by_one_rule": (
        "python/pgflash/report/x.py",
        '"""What it is."""\nsaid = f"{share:.0%} of {rows:,} rows"\n',
    ),
    "sql_leaves_nothing_to_be_found": (
        "extension/sql/views.sql",
        "CREATE VIEW v AS SELECT a / b FROM t;\n",
    ),
    "tests_lie_where_their_source_does": ("tests/unit/place/test_x.py", '"""It is."""\n'),
    "todos_have_an_issue": ("core/src/x.c", ESSAY + "/* TO" + "DO: later */\n"),
    "words_are_plain": ("python/pgflash/x.py", LICENCE + '"""A file made anew."""\n'),
}


@pytest.mark.parametrize("rule", [rule.__name__ for rule in tidy.RULES])
def test_every_rule_finds_what_breaks_it(rule: str) -> None:
    path, text = BROKEN[rule]
    assert any(complaint.endswith(f"[{rule}]") for complaint in complaints(path, text))


@pytest.mark.parametrize("room", ["src", "test"])
@pytest.mark.parametrize("lines", [70, 71])
def test_a_function_longer_than_a_screen_is_found(lines: int, room: str) -> None:
    text = ESSAY + "static int\nx(void)\n{\n" + (lines - 3) * "\tx();\n" + "}\n"
    assert bool(complaints(f"emulator/{room}/x.c", text)) == (lines > 70)


@pytest.mark.parametrize("lines", [900, 901])
def test_a_file_that_is_too_long_is_found(lines: int) -> None:
    text = ESSAY + (lines - ESSAY.count("\n")) * "int x;\n"
    assert bool(complaints("emulator/src/x.c", text)) == (lines > 900)


def test_an_essay_that_is_too_long_is_found() -> None:
    essay = ESSAY.replace("*/", 48 * " * More.\n" + " */")
    assert complaints("emulator/src/x.c", essay)
    assert not complaints("emulator/src/x.c", essay.replace(" * More.\n", "", 2))


@pytest.mark.parametrize("assertion", ["FC_ASSERT(true);", "Assert(true);"])
def test_an_assertion_counts_for_four_functions(assertion: str) -> None:
    functions = "".join(f"void\nfc_clock_{name}(void)\n{{\n}}\n" for name in "abc")
    text = ESSAY + functions + f"void\nfc_clock_d(void)\n{{\n\t{assertion}\n}}\n"
    assert complaints("core/src/clock.c", text) == []


@pytest.mark.parametrize("room", sorted({"core/src"} | {f"extension/src/{one}" for one in ROOMS}))
def test_a_room_without_assertions_is_found(room: str) -> None:
    functions = "".join(f"void\nfc_clock_{name}(void)\n{{\n}}\n" for name in "abcd")
    found = complaints(f"{room}/clock.c", ESSAY + functions)
    assert found == [
        f"{room}/clock.c:1: 0 assertions for 4 public functions; at least 1"
        " [functions_state_their_contracts]"
    ]


SAFE = '"h11>=0.16", "idna>=3.7", "jinja2>=3.1.6", "starlette==1.10.0"'


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("pyproject.toml", LICENCE + f"[project]\ndependencies = [{SAFE}]\n", ""),
        ("pyproject.toml", f'[project]\ndependencies = [{SAFE}, "rich"]\n', "no lower bound"),
        ("pyproject.toml", f'[project]\ndependencies = [{SAFE}, "H11>=1"]\n', "declared twice"),
        ("pyproject.toml", '[project]\ndependencies = ["rich>=13"]\n', "h11 has no bound"),
        ("requirements.lock", "jinja2==3.1.5 \\\n    --hash=sha256:0\n", "before 3.1.6"),
        ("requirements.lock", "jinja2==3.1.6 \\\n    --hash=sha256:0\n", ""),
    ],
)
def test_bounds_of_dependencies_are_looked_at(path: str, text: str, said: str) -> None:
    found = complaints(path, text)
    assert any(said in one for one in found) if said else found == []


@pytest.mark.parametrize(
    "text",
    [
        "download it from files." + "pythonhosted" + ".org\n",
        "cd " + "/ro" + "ot/pgflash\n",
    ],
)
def test_addresses_and_paths_of_a_machine_are_found(text: str) -> None:
    assert complaints("docs/x.md", text)


@pytest.mark.parametrize(
    ("path", "tested"),
    [
        ("tests/unit/test_x.py", "x, which is not in python/pgflash"),
        ("tests/unit/test_wal.py", "wal, which is not in python/pgflash"),
        ("tests/unit/lab/oltp/test_x.py", "x, which is not in lab/pgflash_lab/oltp"),
        (
            "tests/unit/extension/policy/test_paths.py",
            "paths, which is not in extension/src/policy",
        ),
        ("core/test/x_interleaving_test.c", "x_interleaving, which is not in core/src"),
        ("extension/test/policy/paths_test.c", "paths, which is not in extension/src/policy"),
    ],
)
def test_a_test_of_nothing_that_is_there_is_found(path: str, tested: str) -> None:
    text = ESSAY if path.endswith(".c") else LICENCE + '"""It is."""\n'
    assert complaints(path, text) == [
        f"{path}:1: tests {tested} [tests_lie_where_their_source_does]"
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("python/pgflash/web/templates/x.html", '<td>{{ "%.2f"|format(seconds) }}</td>\n'),
        ("python/pgflash/web/static/x.js", "cell.textContent = seconds.toFixed(2);\n"),
    ],
)
def test_a_page_that_prints_a_number_by_itself_is_found(path: str, text: str) -> None:
    (found,) = complaints(path, LICENCE + text)
    assert found.endswith("[numbers_are_printed_by_one_rule]")


@pytest.mark.parametrize(
    "function",
    [
        "/* Relaxed: a hint. */\nstatic int\nx(void)\n{\n\treturn load(memory_order_relaxed);\n}\n",
        "static int\nx(void)\n{\n\t/* As in y(). */\n\tatomic_thread_fence(one);\n}\n",
        "/* It says memory_order_relaxed. */\nstatic int\nx(void)\n{\n\treturn 1;\n}\n",
    ],
)
def test_a_memory_order_with_its_reason_is_none_to_complain_of(function: str) -> None:
    assert complaints("extension/src/hooks/x.c", ESSAY + "\n" + function) == []


@pytest.mark.parametrize("folder", ["bench/core", "emulator/src", "extension/src", "tests/crash"])
def test_c_of_any_room_fits_the_screen(folder: str) -> None:
    (found,) = complaints(f"{folder}/x.c", ESSAY + "/* " + 80 * "-" + " */\n")
    assert found.endswith("is wider than 80 columns [c_fits_the_screen]")


@pytest.mark.parametrize(
    "path",
    [
        "Makefile",
        "bench/pg/x.py",
        "emulator/profiles/x.toml",
        "extension/pgflash.control",
        "extension/pgflash.map",
        "extension/sql/x.sql",
    ],
)
def test_a_file_of_any_room_names_its_licence(path: str) -> None:
    found = (
        f"{path}:1: lacks the line SPDX-License-Identifier: PostgreSQL [files_name_their_licence]"
    )
    assert found in complaints(path, "x = 1\n")
    assert found not in complaints(path, LICENCE + "x = 1\n")


def test_a_script_without_an_ending_names_its_licence() -> None:
    rule = "[files_name_their_licence]"
    assert any(
        one.endswith(rule) for one in complaints(".ci/run", "#!/usr/bin/env bash\n# It is.\n")
    )


@pytest.mark.parametrize(
    "expression",
    [
        "a = b",
        "now()",
        "public.now()",
        "nullif(a, b)",
        "a IN (b, c)",
        "a IS DISTINCT FROM b",
        "pgflash_wait_class('x', a, b)",
    ],
)
def test_sql_that_leaves_something_to_be_found_is_found(expression: str) -> None:
    assert complaints("extension/sql/views.sql", f"SELECT {expression} FROM t;\n")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "extension/sql/views.sql",
            "-- SPDX-License-Identifier: PostgreSQL\n"
            "SELECT pg_catalog.count(*), a OPERATOR(pg_catalog.=) 'x'::text -- a = b\n",
        ),
        ("core/src/clock.c", ESSAY + "#include <stdatomic.h>\n#include <string.h>\n"),
        ("core/src/clock.c", ESSAY + '#include "fcache/cache.h"\n'),
        ("core/src/clock.c", ESSAY + "int\nfc_clock_set(void)\n{\n}\n"),
        ("core/src/clock.c", ESSAY + "static int\nset(void)\n{\n\tfc_clock_ns();\n}\n"),
        ("core/src/read.c", ESSAY + "static int\nx(void)\n{\n\tfc_clock_ns();\n}\n"),
        ("core/src/file.c", ESSAY + "static int\nx(void)\n{\n\tfc_cache_policy_of();\n}\n"),
        (
            "extension/src/bridge/bridge.c",
            ESSAY + '#include "postgres.h"\n#include "fcache/cache.h"\n',
        ),
        ("extension/src/server/compat.h", ESSAY + "#if PG_VERSION_NUM >= 160000\n#endif\n"),
        ("core/src/clock.c", ESSAY + "/* TO" + "DO(#12): later */\n"),
        ("lab/pgflash_lab/server.py", LICENCE + '"""It is."""\nx = psycopg.connect("")\n'),
        (
            "python/pgflash/store/x.py",
            LICENCE + '"""It is."""\nX = "select pg_catalog.now(), count(*)"\n',
        ),
        ("tools/x.py", "#!/usr/bin/env python3\n" + LICENCE + '"""It is."""\n'),
        ("python/pgflash/web/static/vendor/x.js", "let x = y.toFixed(2);\n"),
        (
            "lab/pgflash_lab/web/templates/x.html",
            LICENCE + '<progress value="{{ "%.3f"|format(share) }}">\n',
        ),
        ("extension/test/regress/sql/x.sql", "SELECT 1;\n"),
        ("tests/unit/test_place.py", LICENCE + '"""Of the room place."""\n'),
        ("tests/unit/place/test_wal.py", LICENCE + '"""Of a module."""\n'),
        ("tests/unit/tools/test_scratch.py", LICENCE + '"""Of a script."""\n'),
        ("core/test/file_x_test.c", ESSAY),
        ("docs/x.md", "data lives in /srv/home/data, and as ~/data\n"),
    ],
)
def test_what_is_allowed_is_not_complained_about(path: str, text: str) -> None:
    assert complaints(path, text) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("docs/x.md", "Who reads the archive must look there.\n"),
        ("docs/x.md", "The limit stands in a file of its own.\n"),
        ("python/x.toml", 'text = "This cannot be had."\n'),
        ("docs/decisions/0001-x.md", "The map is made anew.\n"),
        ("core/src/clock.c", ESSAY + "/* Who sets the clock locks it. */\n"),
        ("python/pgflash/x.py", LICENCE + '"""Who reads it must wait."""\n'),
        ("tests/x.py", LICENCE + '"""A file.  Whoever reads it must wait."""\n'),
    ],
)
def test_words_to_avoid_are_found(path: str, text: str) -> None:
    assert any("[words_are_plain]" in one for one in complaints(path, text))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("docs/x.md", "## Who may do what\n\nWho waits for what? `--anew` says it.\n"),
        ("core/src/clock.c", ESSAY + "/* Who changed it?  A process that is known. */\n"),
        ("core/src/clock.c", ESSAY + "/* A reader of its own looks up a name. */\n"),
    ],
)
def test_words_are_free_where_they_are_no_prose_of_ours(path: str, text: str) -> None:
    assert not any("[words_are_plain]" in one for one in complaints(path, text))
