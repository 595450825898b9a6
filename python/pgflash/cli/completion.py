# SPDX-License-Identifier: PostgreSQL
"""pgflash completion: what a shell needs to complete a command line.

A script contains all commands, options and their values, as the parser declares them, so TAB
answers at once, without Python.  It is the shell's own: bash and zsh look up tables by the command
so far ("pgflash lab run"), fish has a line for each thing that may follow.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import click

from pgflash.cli.options import examples
from pgflash.cli.output import write_page

#: The next word is a file, a folder, or anything.
_FILE, _FOLDER, _FREE = "<file>", "<folder>", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """The words that may follow a command, and its summary."""

    path: str
    command: click.Command
    subcommands: Mapping[str, click.Command] = field(default_factory=dict)

    def options(self) -> Iterator[tuple[click.Option | None, str]]:
        """Yield the options with their long names."""
        for one in self.command.params:
            if isinstance(one, click.Option) and not one.hidden:
                yield from ((one, name) for name in (*one.opts, *one.secondary_opts))
        yield None, "--help"

    def values(self) -> Iterator[tuple[str, str]]:
        """Yield the options that take a value, and the values."""
        for one, name in self.options():
            if one is not None and not one.is_flag:
                yield name, _values(one)

    def follows(self) -> str:
        """Return the commands or the arguments that may follow."""
        arguments = (_values(one) for one in self.command.params if isinstance(one, click.Argument))
        return " ".join(self.subcommands) or next(arguments, "")


def _values(one: click.Parameter) -> str:
    if isinstance(one.type, click.Choice):
        return " ".join(map(str, one.type.choices))
    if isinstance(one.type, click.Path):
        return _FILE if one.type.file_okay else _FOLDER
    return _FREE


def _all(path: str, command: click.Command) -> Iterator[_Words]:
    """Yield a command and all below it."""
    context = click.Context(command)
    below: dict[str, click.Command] = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                below[name] = found
    yield _Words(path=path, command=command, subcommands=below)
    for name, one in below.items():
        yield from _all(f"{path} {name}", one)


# ---- bash and zsh

_BASH = """\
# Completes pgflash in bash.  Made by: pgflash completion bash
declare -gA _pgflash_follows=({follows})
declare -gA _pgflash_options=({options})
declare -gA _pgflash_values=({values})

_pgflash()
{{
	local word=${{COMP_WORDS[COMP_CWORD]}} at=pgflash option= words one i
	for ((i = 1; i < COMP_CWORD; i++)); do
		one=${{COMP_WORDS[i]}}
		if [[ $one == '=' ]]; then
			continue # to bash, --format=json is three words
		elif [[ -n $option ]]; then
			option=
		elif [[ -n ${{_pgflash_values[$at $one]+is}} ]]; then
			option="$at $one"
		elif [[ -n ${{_pgflash_options[$at $one]+is}} ]]; then
			at+=" $one"
		fi
	done
	[[ $word == '=' ]] && word=
	if [[ -n $option ]]; then
		words=${{_pgflash_values[$option]}}
	elif [[ $word == -* ]]; then
		words=${{_pgflash_options[$at]}}
	else
		words=${{_pgflash_follows[$at]}}
	fi
	COMPREPLY=()
	case $words in
	'<file>') compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	'<folder>') compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
	*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") ;;
	esac
}}
complete -F _pgflash pgflash
"""

_ZSH = """\
#compdef pgflash
# Completes pgflash in zsh.  Made by: pgflash completion zsh
typeset -gA _pgflash_follows _pgflash_options _pgflash_values
_pgflash_follows=({follows})
_pgflash_options=({options})
_pgflash_values=({values})

_pgflash()
{{
	local at=pgflash option= found one
	for one in "${{(@)words[2,CURRENT-1]}}"; do
		if [[ -n $option ]]; then
			option=
		elif (( ${{+_pgflash_values[$at $one]}} )); then
			option="$at $one"
		elif (( ${{+_pgflash_options[$at $one]}} )); then
			at+=" $one"
		fi
	done
	if [[ -z $option && ${{words[CURRENT]}} == --*=* ]]; then
		option="$at ${{words[CURRENT]%%=*}}"
		compset -P '*='
	fi
	if [[ -n $option ]]; then
		found=${{_pgflash_values[$option]}}
	elif [[ ${{words[CURRENT]}} == -* ]]; then
		found=${{_pgflash_options[$at]}}
	else
		found=${{_pgflash_follows[$at]}}
	fi
	case $found in
	'<file>') _files ;;
	'<folder>') _files -/ ;;
	*) compadd -- ${{=found}} ;;
	esac
}}
if [[ ${{funcstack[1]}} == _pgflash ]]; then
	_pgflash "$@"
else
	compdef _pgflash pgflash
fi
"""


def _tables(found: list[_Words], pair: str) -> dict[str, str]:
    """Return the tables by name; PAIR has a key and a value, in quotes."""

    def table(rows: Iterator[tuple[str, str]]) -> str:
        lines = (f"\t{pair.format(shlex.quote(key), shlex.quote(one))}\n" for key, one in rows)
        return "\n" + "".join(lines)

    return {
        "follows": table((one.path, one.follows()) for one in found),
        "options": table(
            (one.path, " ".join(name for _option, name in one.options() if name[:2] == "--"))
            for one in found
        ),
        "values": table(
            (f"{one.path} {name}", words) for one in found for name, words in one.values()
        ),
    }


# ---- fish

_FISH = """\
# Completes pgflash in fish.  Made by: pgflash completion fish
function __pgflash_at
	set -l at pgflash
	for one in (commandline -opc)[2..]
		contains -- "$at $one" {paths}; and set at "$at $one"
	end
	test "$at" = "$argv"
end
complete -c pgflash -f
{lines}
"""


def _fish(found: list[_Words]) -> str:
    lines = [
        " ".join(("complete -c pgflash", *one)) for words in found for one in _fish_words(words)
    ]
    paths = " ".join(_fish_quote(one.path) for one in found)
    return _FISH.format(paths=paths, lines="\n".join(lines))


def _fish_words(words: _Words) -> Iterator[tuple[str, ...]]:
    here = ("-n", _fish_quote(f"__pgflash_at {words.path}"))
    for name, one in words.subcommands.items():
        yield (*here, "-a", name, "-d", _fish_quote(one.get_short_help_str(100)))
    if not words.subcommands and (follows := words.follows()):
        yield (*here, *_fish_values(follows))
    for option, name in words.options():
        flag = ("-l", name[2:]) if name.startswith("--") else ("-s", name[1:])
        says = ("-d", _fish_quote((option.help if option is not None else None) or "Show help."))
        takes: tuple[str, ...] = ()
        if option is not None and not option.is_flag:
            takes = ("-x", *_fish_values(_values(option)))
        yield (*here, *flag, *takes, *says)


def _fish_values(words: str) -> tuple[str, ...]:
    by_kind = {
        _FREE: (),
        _FILE: ("-a", _fish_quote("(__fish_complete_path)")),
        _FOLDER: ("-a", _fish_quote("(__fish_complete_directories)")),
    }
    return by_kind[words] if words in by_kind else ("-a", _fish_quote(words))


def _fish_quote(text: str) -> str:
    """Return a text in fish's quotes, in which a backslash counts."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# ---- the command


def script(shell: str, command: click.Command) -> str:
    """Return the script for a shell."""
    found = list(_all("pgflash", command))
    if shell == "fish":
        return _fish(found)
    if shell == "zsh":
        return _ZSH.format(**_tables(found, "{} {}"))
    return _BASH.format(**_tables(found, "[{}]={}"))


@click.command(
    "completion",
    epilog=examples("pgflash completion bash"),
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion_command(context: click.Context, *, shell: str) -> None:
    """Print the script by which a shell completes command lines.

    In bash: eval "$(pgflash completion bash)". After make install no shell needs this.
    """
    write_page(script(shell, context.find_root().command), None, what="")
