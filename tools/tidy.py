#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""House rules that no library checks; each is a function below, with its reason.

    tools/tidy.py [FOLDER]     check the tracked files of a clone; exit 1 if a rule is broken

A rule looks at one file at a time and yields what is wrong with it.  Only tracked files
are looked at.  tests/docs/test_house_rules.py gives every rule something broken to find.
"""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, kw_only=True)
class Source:
    """One tracked file."""

    path: PurePosixPath
    text: str
    clone: Path = Path(__file__).resolve().parent.parent

    @property
    def room(self) -> str:
        """The top folder it is in."""
        return self.path.parts[0] if len(self.path.parts) > 1 else ""

    @property
    def is_c(self) -> bool:
        """Whether it is C source or a C header."""
        return self.path.suffix in {".c", ".h"}

    @functools.cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """The nodes of Python source; the first is the module."""
        return tuple(ast.walk(ast.parse(self.text, filename=str(self.path))))

    def includes(self) -> Iterator[tuple[int, str]]:
        """Yield line number and name of each header it includes."""
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)', self.text, re.M):
            yield self.text.count("\n", 0, match.start()) + 1, match[1]


Rule = Callable[[Source], Iterator[str]]

#: Headers by which a file shows that it knows PostgreSQL.
_POSTGRES_HEADER = re.compile(
    r"^(postgres|postgres_fe|postgres_ext|fmgr|funcapi|miscadmin|pgstat|pg_config\w*|c)\.h$"
    r"|^(access|catalog|commands|common|executor|lib|libpq|nodes|optimizer|parser|port|portability"
    r"|postmaster|replication|rewrite|storage|tcop|utils)/"
)
#: Rooms of the extension: all, and those whose code runs in any process at any instant.
_ROOMS = {
    "account",
    "bridge",
    "hooks",
    "load",
    "policy",
    "sampler",
    "server",
    "snapshot",
    "statement",
}
_ANYWHERE = {"account", "hooks"}
_CORE_HEADER = re.compile(r"(^|/)fcache/")


def core_knows_no_postgres(source: Source) -> Iterator[str]:
    """core/ and emulator/ must build and be tested without PostgreSQL."""
    if source.room in {"core", "emulator"} and source.is_c:
        for line, header in source.includes():
            if _POSTGRES_HEADER.search(header):
                yield f"{line}: includes PostgreSQL's {header}"


#: The files of core/src from the top floor to the ground: each calls those of lower floors only.
_CORE_FLOORS = (
    {"change"},
    {"fill", "list", "read", "resize", "revive"},
    {"cache", "claim", "map_load", "map_save"},
    {"stamp"},
    {"cache_policy", "file"},
    {"bypass", "index", "stand_in", "writer"},
    {"flights", "probe", "reader"},
    {"device_file", "devices", "layout", "life", "wear"},
    {"budget", "curve", "health", "map", "queue", "staging", "superblock"},
    {"broken", "chunk", "clock", "count", "crc32c", "curve_stack", "geometry", "mode", "process"}
    | {"replacement_gittins", "replacement_lfu"},
)
#: Files that call one another all the same, and why they may.
_CORE_CIRCLES = (
    # The file lock guards the table of policies; a file that gets a number needs its policy.
    {"cache_policy", "file"},
)
#: Public functions that are not called after their file, and why; there are none.
_CORE_NAMED_OTHERWISE: frozenset[str] = frozenset()

_C_COMMENT = re.compile(r"/\*.*?\*/", re.S)
#: A function's name at the beginning of a line, below its type; static ones are the file's own.
_PUBLIC_FUNCTION = re.compile(r"^(?!static\b)\w[\w *()\".]*\n(\w+)\(", re.M)
_CORE_CALL = re.compile(r"\b(fc_\w+)\(")


def _without_comments(text: str) -> str:
    """Return C text whose comments are blank lines, so that line numbers stay."""
    return _C_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)


def _is_of_file(function: str, stem: str) -> bool:
    return function == f"fc_{stem}" or function.startswith(f"fc_{stem}_")


def _core_file_of(function: str) -> str | None:
    """Return the file of core/src that a function is named after."""
    found = (stem for floor in _CORE_FLOORS for stem in floor if _is_of_file(function, stem))
    return max(found, key=len, default=None)


def core_names_say_their_file(source: Source) -> Iterator[str]:
    """The name of a call shows which file to open."""
    if source.path.parent != PurePosixPath("core/src") or source.path.suffix != ".c":
        return
    text = _without_comments(source.text)
    for found in _PUBLIC_FUNCTION.finditer(text):
        name = found[1]
        if not _is_of_file(name, source.path.stem) and name not in _CORE_NAMED_OTHERWISE:
            line = text.count("\n", 0, found.start(1)) + 1
            yield f"{line}: {name}() does not begin with fc_{source.path.stem}"


def core_calls_run_downwards(source: Source) -> Iterator[str]:
    """A circle of calls is one thing in several files: none of them can be read alone."""
    if source.path.parent != PurePosixPath("core/src") or source.path.suffix != ".c":
        return
    own = source.path.stem
    floor_of = {stem: floor for floor, stems in enumerate(_CORE_FLOORS) for stem in stems}
    if own not in floor_of:
        yield f"1: {own} is on no floor of tools/tidy.py"
        return
    for number, line in enumerate(_without_comments(source.text).splitlines(), start=1):
        for name in _CORE_CALL.findall(line):
            called = _core_file_of(name)
            if called in {None, own} or any({own, called} <= circle for circle in _CORE_CIRCLES):
                continue
            if floor_of[called] <= floor_of[own]:
                yield f"{number}: calls {name}() of {called}.c, which is not on a lower floor"


#: Rooms whose public functions have contracts to state: at least one assertion for so many.
_ASSERTED = {"core/src", *(f"extension/src/{room}" for room in _ROOMS)}
_CONTRACTS = 4
_ASSERTION = re.compile(r"\b(?:FC_ASSERT|Assert)\(")


def functions_state_their_contracts(source: Source) -> Iterator[str]:
    """A broken invariant is found where it is broken, not three tests later."""
    if source.path.parent.as_posix() not in _ASSERTED or source.path.suffix != ".c":
        return
    text = _without_comments(source.text)
    public = len(_PUBLIC_FUNCTION.findall(text))
    found = len(_ASSERTION.findall(text))
    least = public // _CONTRACTS
    if found < least:
        yield f"1: {found} assertions for {public} public functions; at least {least}"


_ROOM_C = {"bench", "core", "emulator", "extension", "tests"}
_COLUMNS = 80
_SCREEN = 70
_FILE_LINES = 900
_ESSAY_LINES = 50
_C_FUNCTION = re.compile(r"^(\w+)\([^;{}]*?\)\n\{\n.*?^\}", re.M | re.S)


def c_fits_the_screen(source: Source) -> Iterator[str]:
    """A function fits on a screen, a file into one sitting; the formatter leaves comments wide."""
    if source.room not in _ROOM_C or not source.is_c:
        return
    lines = source.text.splitlines()
    for number, line in enumerate(lines, start=1):
        if len(line.expandtabs(4)) > _COLUMNS:
            yield f"{number}: is wider than {_COLUMNS} columns"
    for found in _C_FUNCTION.finditer(source.text):
        length = found[0].count("\n") + 1
        if length > _SCREEN:
            number = source.text.count("\n", 0, found.start()) + 1
            yield f"{number}: {found[1]}() has {length} lines, more than {_SCREEN}"
    if "src" not in source.path.parts:
        return  # a test may be a long list
    essay = source.text.partition("*/")[0].count("\n") + 1
    if essay > _ESSAY_LINES:
        yield f"{essay}: ends an essay of more than {_ESSAY_LINES} lines"
    if len(lines) > _FILE_LINES:
        yield f"1: has {len(lines)} lines, more than {_FILE_LINES}"


#: An access or a fence that is not sequentially consistent by default, or not by an access.
_CHOSEN_ORDER = re.compile(
    r"\bmemory_order_\w+|\batomic_(?:thread|signal)_fence\b|\b__ATOMIC_\w+|\bpg_(?:\w+_)?barrier\("
)
_RELAXED = re.compile(r"\bmemory_order_relaxed\b|\b__ATOMIC_RELAXED\b")
_REASON_OF_RELAXED = re.compile(r"\brelaxed\b|\bas in \w+\(\)", re.I)
_REASON_OF_ORDER = re.compile(
    r"\b(?:relaxed|acquire|released?|fences?|barriers?|order|before|after|handler|complete|sees)\b"
    r"|\bas in \w+\(\)",
    re.I,
)


def memory_orders_have_their_reason(source: Source) -> Iterator[str]:
    """Only a proof shows whether an order is strong enough: a comment in its function."""
    path = source.path
    if path.suffix not in {".c", ".h"} or not (
        path.is_relative_to("core/src") or path.is_relative_to("extension/src")
    ):
        return
    code = _without_comments(source.text)
    for function in _C_FUNCTION.finditer(source.text):
        begin = source.text.rfind("\n\n", 0, function.start()) + 1
        comments = " ".join(_C_COMMENT.findall(source.text[begin : function.end()]))
        first = source.text.count("\n", 0, function.start())
        last = source.text.count("\n", 0, function.end())
        lines = code.split("\n")[first : last + 1]
        chosen = [at for at, line in enumerate(lines, first + 1) if _CHOSEN_ORDER.search(line)]
        relaxed = any(_RELAXED.search(line) for line in lines)
        reason = _REASON_OF_RELAXED if relaxed else _REASON_OF_ORDER
        if chosen and not reason.search(comments):
            yield f"{chosen[0]}: {function[1]}() does not say why this memory order is enough"


def python_fits_the_screen(source: Source) -> Iterator[str]:
    """The same for Python's functions; decorators, such as a command's options, are not counted."""
    if source.path.suffix != ".py":
        return
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > _SCREEN:
                yield f"{node.lineno}: {node.name}() has {length} lines, more than {_SCREEN}"


_OTHER_ERRNO = re.compile(r"\bint (?!saved_errno\b)\w+ = errno;")


def errno_is_kept_under_one_name(source: Source) -> Iterator[str]:
    """A reader looks for the value that a call saves and restores by this name."""
    if source.is_c:
        for number, line in enumerate(source.text.splitlines(), start=1):
            if _OTHER_ERRNO.search(line):
                yield f"{number}: keeps errno as something else than saved_errno"


_CALL_OF_C = re.compile(r"\b(\w+)\(")
_STATIC_FUNCTION = re.compile(r"^static\b[\w *()\".]*\n(\w+)\(", re.M)


@functools.cache
def _extension_code(clone: Path) -> dict[PurePosixPath, str]:
    """Return the text without comments of the extension's C files, by path."""
    return {
        PurePosixPath(path.relative_to(clone)): _without_comments(path.read_text(encoding="utf-8"))
        for path in sorted((clone / "extension/src").glob("*/*.c"))
    }


@functools.cache
def _called_in(text: str) -> frozenset[str]:
    """Return the names of the functions that a C file calls, without its static ones."""
    return frozenset(_CALL_OF_C.findall(text)) - frozenset(_STATIC_FUNCTION.findall(text))


def _calls_of(path: PurePosixPath, text: str, owner: dict[str, PurePosixPath]) -> set[str]:
    """Return the public functions of other files that a file calls."""
    return {name for name in _called_in(text) if owner.get(name, path) != path}


def extension_calls_run_in_no_circle(source: Source) -> Iterator[str]:
    """As in core: files that call one another can only be read together."""
    if source.path.parts[:2] != ("extension", "src") or source.path.suffix != ".c":
        return
    code = _extension_code(source.clone) | {source.path: _without_comments(source.text)}
    owner = {name: path for path, text in code.items() for name in _PUBLIC_FUNCTION.findall(text)}
    calls = {path: _calls_of(path, text, owner) for path, text in code.items()}
    for name in sorted(calls[source.path]):
        reached = {owner[name]}
        ahead = list(reached)
        while ahead:
            more = {owner[next_name] for next_name in calls[ahead.pop()]} - reached
            reached |= more
            ahead += more
        if source.path in reached:
            yield f"1: calls {name}() of {owner[name].name}, which calls back"


def only_the_bridge_knows_both_worlds(source: Source) -> Iterator[str]:
    """Two vocabularies of errors, memory and locks meet in one place, src/bridge/."""
    if source.path.parts[:2] != ("extension", "src") or source.path.parent.name == "bridge":
        return
    headers = list(source.includes())
    if any(_POSTGRES_HEADER.search(header) for _line, header in headers):
        for line, header in headers:
            if _CORE_HEADER.search(header):
                yield f"{line}: includes core's {header} beside PostgreSQL's headers"


def hooks_know_one_another_and_core(source: Source) -> Iterator[str]:
    """Code that may run in any process at any instant uses none that may not."""
    if source.path.parts[:2] == ("extension", "src") and source.path.parent.name in _ANYWHERE:
        for line, header in source.includes():
            is_text = re.match(r"[\w/]+\.(h|def)$", header)
            if not is_text or header.split("/")[0] in _ROOMS - _ANYWHERE:
                yield f"{line}: includes {header}, which does not know where it runs"


def versions_are_told_apart_in_one_place(source: Source) -> Iterator[str]:
    """Differences between major versions are hidden behind names in compat.h."""
    if source.is_c and source.path.name != "compat.h":
        for number, line in enumerate(source.text.splitlines(), start=1):
            if "PG_VERSION_NUM" in line:
                yield f"{number}: PG_VERSION_NUM outside compat.h"


def c_files_open_with_an_essay(source: Source) -> Iterator[str]:
    """A reader who is paged at night starts at the top of the file; the licence is one line."""
    if not source.is_c:
        return
    head = source.text[:6000]
    if not head.lstrip().startswith("/*"):
        yield "1: does not open with a comment that says what the file is"
    if "SPDX-License-Identifier: PostgreSQL" not in head:
        yield "1: lacks the line SPDX-License-Identifier: PostgreSQL"


_LICENSED = {
    *(".control", ".css", ".html", ".j2", ".js", ".map", ".py", ".sh", ".sql", ".svg", ".toml"),
}
#: Other people's; what pgflash printed; and what pg_regress prints with its comments.
_LICENCE_ELSEWHERE = re.compile(
    r"(^|/)(vendor|missing-sources)/|^docs/examples/|^extension/test/regress/sql/"
)


def files_name_their_licence(source: Source) -> Iterator[str]:
    """A file that is copied out of the tree must still name its terms; C has its own rule above."""
    kind = source.path.suffix in _LICENSED or source.path.name == "Makefile"
    if not (kind or source.text.startswith("#!")) or _LICENCE_ELSEWHERE.search(str(source.path)):
        return
    first = source.text.splitlines()[:2]  # the second where the first says what runs it
    named = any("SPDX-License-Identifier: PostgreSQL" in line for line in first)
    if first and not named:
        yield "1: lacks the line SPDX-License-Identifier: PostgreSQL"


def python_files_open_with_a_docstring(source: Source) -> Iterator[str]:
    """The same for Python, tests included."""
    if source.path.suffix == ".py" and source.text.strip():
        module = source.nodes[0]
        if isinstance(module, ast.Module) and ast.get_docstring(module) is None:
            yield "1: does not open with a docstring that says what the file is"


def scripts_say_what_they_are(source: Source) -> Iterator[str]:
    """The same for shell scripts and makefiles."""
    is_script = source.path.suffix == ".sh" or source.text.startswith("#!/usr/bin/env bash")
    if is_script or source.path.name == "Makefile":
        lines = source.text.splitlines()
        heads = ("#!", "# SPDX-License-Identifier")
        first = next((line for line in lines if not line.startswith(heads)), "")
        if not first.startswith("# "):
            yield "1: does not open with a comment that says what the file is"


# Written in pieces, or this file would break its own rule.
_REGISTRY = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("pypi", "org"),
            ("files", "pythonhosted"),
            ("registry", "npmjs"),
            ("static", "crates", "io"),
            ("proxy", "golang"),
            ("repo", "maven"),
            ("repo1", "maven"),
            ("deb", "debian", "org"),
            ("archive", "ubuntu"),
        )
    )
)
_MACHINE_FOLDERS = ("home", "root", "Users", "wor" + "k", "far" + "m")
_MACHINE_PATH = re.compile(rf"(?<![\w.])/(?:{'|'.join(_MACHINE_FOLDERS)})/")


def no_file_knows_this_machine(source: Source) -> Iterator[str]:
    """A clone must work anywhere: no registry addresses, no paths of its author."""
    if source.path.name == "LICENSE":
        return
    for number, line in enumerate(source.text.splitlines(), start=1):
        if _REGISTRY.search(line):
            yield f"{number}: names a package registry"
        if _MACHINE_PATH.search(line):
            yield f"{number}: names a path of one machine"


#: Calls that are allowed in one place only, together with what they require.
_CALLS = (
    (re.compile(r"SC_PHYS_PAGES"), {"memory_limit.c", "host.py"}, "memory_limit_bytes()"),
    (re.compile(r"\bRegisterBackgroundWorker\("), {"background.c"}, "background_submit()"),
)


def limits_are_asked_for_in_one_place(source: Source) -> Iterator[str]:
    """A container has less memory than its machine; a worker may be left out for ever."""
    if source.room not in {"core", "extension", "lab", "python"}:
        return
    for number, line in enumerate(source.text.splitlines(), start=1):
        for call, files, instead in _CALLS:
            if call.search(line) and source.path.name not in files:
                yield f"{number}: call {instead} instead"


#: A number in a text that says how many digits it has.
_OWN_DIGITS = re.compile(
    r"""\{[^{}]*:\+?(?:,|,?\.\d+[f%])\}"""
    r"""|(?<!=")\{\{\s*["']%\.?\d*[efg]["']\s*\|\s*format\b"""  # an attribute is for a machine
    r"""|\.toFixed\("""
)
#: Where numbers are printed in Python and in a browser, and where drawings get coordinates.
_PRINTERS = {"format.js", "svg.py", "words.py"}


def numbers_are_printed_by_one_rule(source: Source) -> Iterator[str]:
    """A number has the same digits on every page, so that pages can be compared."""
    kinds = {".html", ".j2", ".js", ".py", ".toml"}
    if source.room not in {"lab", "python"} or source.path.suffix not in kinds:
        return
    if source.path.name not in _PRINTERS and "vendor" not in source.path.parts:
        for number, line in enumerate(source.text.splitlines(), start=1):
            if _OWN_DIGITS.search(line):
                yield f"{number}: prints a number by itself: pgflash/model/words.py does"


_NAKED_TODO = re.compile(r"\bTO" + r"DO\b(?!\(#\d+\))")


def todos_have_an_issue(source: Source) -> Iterator[str]:
    """Work without an issue number is never done."""
    if source.is_c or source.path.suffix == ".py":
        for number, line in enumerate(source.text.splitlines(), start=1):
            if _NAKED_TODO.search(line):
                yield f"{number}: something to do without an issue number"


_PROGRAM = PurePosixPath("python/pgflash")
_SESSIONS = _PROGRAM / "session.py"
_CONNECT = re.compile(r"\bpsycopg\.(connect|(Async)?Connection\.connect)\b|\bpsycopg_pool\b")


def sessions_are_made_in_one_place(source: Source) -> Iterator[str]:
    """A session that does not begin as session.py has it finds strangers' functions in public.

    The lab's sessions are with servers of its own, which hold nothing of anybody else's.
    """
    if not source.path.is_relative_to(_PROGRAM) or source.path == _SESSIONS:
        return
    for number, line in enumerate(source.text.splitlines(), start=1):
        if _CONNECT.search(line):
            yield f"{number}: connects by itself: pgflash.session.connect() does"


_SQL = re.compile(r"\b(select|from|where|join)\b")
_CALL = re.compile(r"(?<![\w.}])([a-z_][a-z0-9_]*)\(")
#: Grammar that looks like a function, and aggregates that the catalog has for just the
#: types we use (tests/hostile tries that).  unnest of several arrays is grammar, too.
_NO_FUNCTIONS = frozenset(
    {
        *(
            "coalesce",
            "nullif",
            "greatest",
            "least",
            "extract",
            "array",
            "any",
            "unnest",
            "grouping",
        ),
        *("count", "sum", "min", "max"),
    }
)


def sql_names_its_functions_in_full(source: Source) -> Iterator[str]:
    """A pooler may have taken our search_path away; a qualified function is found nowhere else.

    Not in place/, whose moves need one session throughout.
    """
    if not source.path.is_relative_to(_PROGRAM) or source.path.suffix != ".py":
        return
    if source.path.parts[2] == "place":
        return
    texts = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    for node in source.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in texts and _SQL.search(node.value):
            for name in _CALL.findall(node.value):
                if name not in _NO_FUNCTIONS:
                    yield f"{node.lineno}: {name}() without its schema"


_OWN_CALL = re.compile(r"\bpgflash_\w+\(([^()]+)\)")


def calls_of_the_extension_have_types(source: Source) -> Iterator[str]:
    """A parameter without a type takes a stranger's function of the same name in that schema."""
    if source.path.is_relative_to(_PROGRAM) and source.path.suffix == ".py":
        for number, line in enumerate(source.text.splitlines(), start=1):
            for call in _OWN_CALL.finditer(line):
                for argument in call[1].split(","):
                    if ("%s" in argument or "{" in argument) and "::" not in argument:
                        yield f"{number}: {argument.strip()} has no type"


_KERNEL_FILE = re.compile(r"""(Path|open|listdir)\(f?["']/(proc|sys)/(?!self/fd["'/])""")


def the_kernel_is_read_in_one_room(source: Source) -> Iterator[str]:
    """pgflash.machine knows the formats of /proc and /sys; our own open files have names there."""
    if source.path.suffix == ".py" and source.room in {"python", "lab"}:
        for number, line in enumerate(source.text.split("\n"), start=1):
            if "machine" not in source.path.parts and _KERNEL_FILE.search(line):
                yield f"{number}: reads the kernel's files by itself: pgflash.machine does"


_COMMANDS = {_PROGRAM / "cli", PurePosixPath("lab/pgflash_lab/cli")}
_RAW_OUTPUT = re.compile(
    r"\bclick\.(echo|secho|style|prompt)\b|(?<![.\w])print\(|\bsys\.std(out|err)\.write\b|\btraceback\.print"
    r"|\bfrom rich\.(markup|table|text) import (?!Text$)|\bjson\.dumps\b|\bText\("
)


def commands_write_through_output(source: Source) -> Iterator[str]:
    """Any user can choose names: printing them elsewhere may send commands to a terminal."""
    if source.path.parent in _COMMANDS and source.path.name != "output.py":
        for number, line in enumerate(source.text.splitlines(), start=1):
            if _RAW_OUTPUT.search(line):
                yield f"{number}: writes or escapes by itself: pgflash.cli.output does"


def roles_are_granted_in_one_place(source: Source) -> Iterator[str]:
    """Before a hint suggests GRANT of a role, the code checks whether that leads to superuser."""
    if not source.path.is_relative_to(_PROGRAM) or source.path == _PROGRAM / "place/relations.py":
        return
    for number, line in enumerate(source.text.splitlines(), start=1):
        if "GRANT {" in line:
            yield f"{number}: says GRANT of a role that may be a superuser"


#: The first versions without a hole that is known, and the hole.
_SAFE_FROM = {
    "h11": ("0.16", "CVE-2025-43859: requests are told apart wrongly"),
    "idna": ("3.7", "CVE-2024-3651: a long name takes for ever"),
    "jinja2": ("3.1.6", "CVE-2025-27516: a template leaves the sandbox"),
    "starlette": ("0.49.1", "CVE-2025-62727: a Range header takes for ever"),
}
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(>=|==)\s*([\d.]+)")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.strip(".").split("."))


def no_dependency_has_a_known_hole(source: Source) -> Iterator[str]:
    """An installation without our lock files gets what the lower bounds allow."""
    if source.path.name == "pyproject.toml":
        project = tomllib.loads(source.text)["project"]
        lists = [
            project.get("dependencies", []),
            *project.get("optional-dependencies", {}).values(),
        ]
        texts = [text for one in lists for text in one]
        must = set(_SAFE_FROM) if source.room == "" else set()
    elif source.room == "" and source.path.suffix == ".lock":
        texts = re.findall(r"^[A-Za-z0-9._-]+==[\d.]+", source.text, re.M)
        must = set()
    else:
        return
    seen: set[str] = set()
    for text in texts:
        found = _REQUIREMENT.match(text)
        if found is None:
            yield f"1: {text} has no lower bound"
            continue
        name = found[1].lower().replace("_", "-")
        safe, hole = _SAFE_FROM.get(name, ("0", ""))
        if _version(found[3]) < _version(safe):
            yield f"1: {text} allows a version before {safe} ({hole})"
        if name in seen:
            yield f"1: {name} is declared twice"
        seen.add(name)
    for name in sorted(must - seen):
        yield f"1: {name} has no bound: it must be at least {_SAFE_FROM[name][0]}"


_SERVING = re.compile(r"\buvicorn\.(Config|run)\(")


def pages_are_served_behind_the_door(source: Source) -> Iterator[str]:
    """Any stranger can stop a server without limits of connections and times."""
    if source.path.suffix == ".py" and source.path != PurePosixPath("python/pgflash/web/serve.py"):
        for number, line in enumerate(source.text.splitlines(), start=1):
            if _SERVING.search(line):
                yield f"{number}: serves by itself, not by make_server() of pgflash.web.serve"


_BY_NAME = {
    *("open", "read_text", "read_bytes", "mkdir", "rmdir", "unlink", "rename", "symlink_to"),
    *("symlink", "touch", "chmod", "chown", "iterdir", "listdir", "scandir", "glob", "rglob"),
    *("utime", "truncate", "rmtree"),
}
_WRITES = {"write_text", "write_bytes"}

#: These work through Owner.do, on files of /proc, or beside a plan of our own.
_MAY_NAME_FILES = {"files", "walfolders", "owner", "speed", "control", "journal"}


def root_names_no_file_of_others(source: Source) -> Iterator[str]:
    """The owner of a folder can put a link there at any moment: see place/owner.py, trusted.py."""
    parts = source.path.parts
    if parts[:2] != ("python", "pgflash") or source.path.suffix != ".py":
        return
    banned = set() if parts[2] == "trusted.py" else _WRITES
    if parts[2] == "place" and source.path.stem not in _MAY_NAME_FILES:
        banned = banned | _BY_NAME
    for node in source.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        # A figure may have that name, too, but is called without arguments.
        if node.func.attr in banned - (set() if node.args else _WRITES):
            yield f"{node.lineno}: {node.func.attr}() of a file by its name"


#: The parts of a script that name nothing to be looked up: comments, bodies of C functions, the
#: options of a type or a table, the names of functions that are created or granted, assignments.
_SQL_APART = re.compile(
    r"--[^\n]*|^\\[^\n]*|^COMMENT ON .*?;\n|^AS 'MODULE_PATHNAME', '\w+'$|^\t[A-Z]+ = [\w ]+,?$"
    r"|WITH \([^)]*\)|interval '[^']*'|'(?:[^']|'')*'::|SET \w+ =|:=|OPERATOR\(pg_catalog\.[^)]+\)",
    re.S | re.M,
)
_SQL_LEFT_OPEN = {
    "an operator without OPERATOR(pg_catalog...)": re.compile(r"[-+*/<>=~!@#%^&|]+"),
    "a function without its schema": re.compile(
        r"(?<![\w.\"])(?!pgflash_|pg_catalog\.|(?:TABLE|CHECK|KEY|ARRAY|ANY|AND|ON|IN|AS)\b)"
        r"(?:\w+\.)?[a-z_]\w*\(",
        re.I,
    ),
    "a word that stands for an operator": re.compile(
        r"\b(?:NULLIF|IN \(|USING \(|NATURAL|DISTINCT FROM|BETWEEN|I?LIKE|SIMILAR|CASE (?!WHEN))",
        re.I,
    ),
    "a literal without its type": re.compile(r"'"),
}


def sql_leaves_nothing_to_be_found(source: Source) -> Iterator[str]:
    """The owner of the schema may have put better matches there than PostgreSQL's own."""
    if source.path.parts[:2] != ("extension", "sql") or source.path.suffix != ".sql":
        return
    code = _SQL_APART.sub(lambda found: "\n" * found[0].count("\n"), source.text)
    code = re.sub(r"\bcount\(\*\)|SELECT (?:\w\.)?\*", "", code)
    for number, line in enumerate(code.splitlines(), start=1):
        for what, pattern in _SQL_LEFT_OPEN.items():
            if pattern.search(line):
                yield f"{number}: {what}"


#: Where the sources are that tests/unit/FOLDER tests; of any other folder in python/pgflash.
_TESTED_BY_UNIT = {
    "bench": "bench",
    "extension": "extension/src",
    "lab": "lab/pgflash_lab",
    "support": "tests/support",
    "tools": "tools",
}
#: Tests of more than one file or room: the whole of core, the wheels, the pages of papers.
_OF_SEVERAL_FILES = (
    "tests/unit/extension/test_makefile.py",
    *("core/test/assert_test.c", "core/test/concurrency_test.c", "core/test/model_test.c"),
    "core/test/threads_test.c",
    *("tests/unit/test_distribution.py", "tests/unit/lab/papers"),
)


def tests_lie_where_their_source_does(source: Source) -> Iterator[str]:
    """The path of a test shows its source, and the path of a source its test."""
    path = source.path
    if any(path.is_relative_to(one) for one in _OF_SEVERAL_FILES):
        return
    folder, name = path.parent.as_posix(), path.stem
    if path.suffix == ".py" and path.is_relative_to("tests/unit") and name.startswith("test_"):
        first, *rest = path.parts[2:-1] or [""]
        tested = _TESTED_BY_UNIT.get(first, f"python/pgflash/{first}")
        there = source.clone.joinpath(tested, *rest)
        # Of a room, a module, a script, or a file of data.
        stem = name.removeprefix("test_")
        found = (there / stem).is_dir() or any(there.glob(f"{stem}.*"))
    elif name.endswith("_test") and folder.startswith(("core/test", "extension/test")):
        there = source.clone / folder.replace("/test", "/src", 1)
        stem = name.removesuffix("_test")
        found = any(f"{stem}_".startswith(f"{one.stem}_") for one in there.glob("*.c"))
    else:
        return
    if not found:
        yield f"1: tests {stem}, which is not in {there.relative_to(source.clone)}"


#: Words that make a text read as translated, and better ones; some only where they are prose.
_AVOIDED = (
    (r"[Aa]new", "again"),
    (r"[Aa]s ever", "as usual"),
    (r"and the like", "and others"),
    (r"(?:be|been|is|are) had", "available"),
    (r"[Gg](?:o|oes|oing|one) on with", "resume, continue"),
    (r"(?:its|their) kin", "similar"),
    (r"one after the other", "one by one"),
    (r"otherwise than", "differently from"),
    (r"[Pp]ass(?:es|ed|ing)? over", "skip"),
    (r"[Ss]tretch(?:es)?", "range"),
    (r"[Ww]hoever", "the process, user or reader that"),
    (r"(?:come|comes|came) to (?:its|their) end", "end"),
    (r"l(?:ie|ies|ay) (?:behind|below|beside|in|on)", "is"),
    (r"[Ff]or want of", "because there is no"),
    (r"takes? (?:its|their) leave", "end, exit"),
)
_AVOIDED_IN_PAGES = (
    (r"(?:a|an|each|every|no|one|\d+) looks?(?! like| up|-up)", "a sample"),
    (r"is said", "is reported"),
    (r"of (?:his|its|their|your) own", "own, separate"),
    (r"stands? (?:apart|below|beside|in)(?! for)", "is"),
)
#: "Who reads must ..." for the reader; a question, and a heading, may begin so.
_WHO = re.compile(r"(?:^(?:- )?|[.:;] )Who [a-z][^.:;?#]*[.:;]", re.M)
#: The same at the beginning of a comment or of a sentence in one.
_WHO_IN_CODE = re.compile(
    r'(?:"""|(?:^[ \t]*\*|/\*|#:?|//|--|[.:;] ?) )Who [a-z][^.:;?]*[.:;]', re.M
)
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.M | re.S)
#: Texts of others, released texts, and texts about these words.
_NOT_OURS = re.compile(
    r"docs/examples/|(?:^|/)(?:vendor|missing-sources)/|tests/golden/data/|extension/test/sql/"
    r"|STYLE\.md$|tools/tidy\.py$|tests/docs/test_house_rules\.py$"
)


@functools.cache
def _any_of(avoided: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    return re.compile("|".join(rf"\b(?:{word})\b" for word, _better in avoided))


def words_are_plain(source: Source) -> Iterator[str]:
    """A text that reads as translated is read twice; STYLE.md has examples."""
    path = source.path.as_posix()
    if _NOT_OURS.search(path):
        return
    text = source.text
    avoided: tuple[tuple[str, str], ...] = _AVOIDED
    if source.path.suffix == ".md":
        avoided += _AVOIDED_IN_PAGES
        text = _CODE.sub(lambda found: "`" + "\n" * found[0].count("\n"), text)
        text = re.sub(r"^#.*$", "", text, flags=re.M)
    for who in (_WHO if source.path.suffix == ".md" else _WHO_IN_CODE).finditer(text):
        number = text.count("\n", 0, who.start()) + 1
        yield f'{number}: "{who[0].strip()[:30]}": name the reader, user or process'
    for found in _any_of(avoided).finditer(text):
        number = text.count("\n", 0, found.start()) + 1
        better = next(better for word, better in avoided if re.fullmatch(word, found[0]))
        yield f'{number}: "{found[0]}": {better}'


RULES: tuple[Rule, ...] = (
    core_knows_no_postgres,
    core_names_say_their_file,
    core_calls_run_downwards,
    functions_state_their_contracts,
    c_fits_the_screen,
    python_fits_the_screen,
    errno_is_kept_under_one_name,
    memory_orders_have_their_reason,
    extension_calls_run_in_no_circle,
    only_the_bridge_knows_both_worlds,
    hooks_know_one_another_and_core,
    versions_are_told_apart_in_one_place,
    c_files_open_with_an_essay,
    files_name_their_licence,
    python_files_open_with_a_docstring,
    scripts_say_what_they_are,
    no_file_knows_this_machine,
    limits_are_asked_for_in_one_place,
    numbers_are_printed_by_one_rule,
    todos_have_an_issue,
    sessions_are_made_in_one_place,
    sql_names_its_functions_in_full,
    calls_of_the_extension_have_types,
    the_kernel_is_read_in_one_room,
    commands_write_through_output,
    roles_are_granted_in_one_place,
    no_dependency_has_a_known_hole,
    pages_are_served_behind_the_door,
    root_names_no_file_of_others,
    sql_leaves_nothing_to_be_found,
    tests_lie_where_their_source_does,
    words_are_plain,
)


def complaints(sources: Iterator[Source]) -> Iterator[str]:
    """Yield one line for each broken rule."""
    for source in sources:
        for rule in RULES:
            for complaint in rule(source):
                yield f"{source.path}:{complaint} [{rule.__name__}]"


def tracked_sources(folder: Path) -> Iterator[Source]:
    """Yield the tracked text files of a clone."""
    listed = subprocess.run(
        # The clone may belong to another user than the one who checks it.
        ["git", "-c", "safe.directory=*", "-C", folder, "ls-files", "-z"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        path = folder / name
        if path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or other binary
        yield Source(path=PurePosixPath(name), text=text, clone=folder)


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(complaints(tracked_sources(folder)))
    print("\n".join(found) or "The house rules hold.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
