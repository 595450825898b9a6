# SPDX-License-Identifier: PostgreSQL
"""The command line: it calls other rooms, and prints what they return.

No other room prints.  An error that the user can act on is one line and a hint, with the
error's exit code; a traceback appears only with --debug.  Ctrl-C ends with one line and
exit code 130, after everything that was started has been stopped.

Another distribution adds a command by an entry point of GUESTS.  A command is imported when it is
called, or listed.
"""

import functools
import signal
import sys
import traceback
from importlib import import_module
from importlib.metadata import entry_points
from types import FrameType

import click

import pgflash
from pgflash import session
from pgflash.cli.options import examples
from pgflash.cli.output import complain, say
from pgflash.errors import PgflashError

EXIT_INTERRUPTED = 130

#: The group of entry points whose names are commands.
GUESTS = "pgflash.commands"
#: Commands of another distribution that README names: without it, they say how to get it.
_LAB = frozenset({"cost", "lab"})

#: Commands that change a server need its rights.
_MAY_BE_SUPERUSER = frozenset({"place", "plan"})

#: A lost interrupt is repeated after so many seconds, when the removal of the object has ended.
_AGAIN_S = 0.05


#: Our own commands: where each is, below this package.
_COMMANDS = {
    "advise": "advise.advise_command",
    "baseline": "baseline.baseline_command",
    "cache": "cache.cache_command",
    "check": "doctor.check_command",
    "compare": "report.compare_command",
    "completion": "completion.completion_command",
    "devices": "devices.devices_command",
    "doctor": "doctor.doctor_command",
    "fleet": "fleet.fleet_command",
    "memory": "memory.memory_command",
    "place": "place.place",
    "plan": "plan.plan",
    "report": "report.report_command",
    "serve": "serve.serve_command",
    "snapshot": "snapshots.snapshot_command",
    "snapshots": "snapshots.snapshots_command",
    "top": "top.top_command",
    "version": "version.version_command",
}


class MissingError(PgflashError):
    """A command needs a distribution that is not installed."""


class _Commands(click.Group):
    """Our own commands, and those of other distributions; each is imported when it is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*_COMMANDS, *entry_points(group=GUESTS).names})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command."""
        if name in _COMMANDS:
            module, attribute = _COMMANDS[name].split(".")
            found: click.Command = getattr(import_module(f"{__name__}.{module}"), attribute)
            return found
        for guest in entry_points(group=GUESTS, name=name):
            self.add_command(guest.load(), name)
            return self.commands[name]
        if name in _LAB:
            raise MissingError(
                f"pgflash {name} is a command of the lab, which is not installed",
                hint="Install it: pip install ./lab, in pgflash's folder.",
            )
        return None


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-?", "--help"], "max_content_width": 100},
    epilog=examples("pgflash report -o report.html", "pgflash advise --flash /nvme"),
)
@click.version_option(pgflash.__version__, prog_name="pgflash")
@click.option("--debug", is_flag=True, help="Show a traceback on errors.")
@click.pass_context
def command(context: click.Context, *, debug: bool) -> None:
    """Put flash where PostgreSQL waits for its storage, and prove the gain."""
    context.obj = {"debug": debug}
    if context.invoked_subcommand not in {*_MAY_BE_SUPERUSER, *entry_points(group=GUESTS).names}:
        session.tell_superuser = functools.cache(_tell_superuser)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    # A signal that ends us must clean up as Ctrl-C does; nohup ignores that of a closed terminal.
    is_kept_up = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    ending = {signal.SIGTERM, signal.SIGALRM} | (set() if is_kept_up else {signal.SIGHUP})
    previous = {one: signal.signal(one, _interrupt) for one in ending}
    hook, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    try:
        code = command.main(args=words, prog_name="pgflash", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted; everything that it started has been stopped.")
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PgflashError as error:
        if "--debug" in words:
            say(*traceback.format_exc().splitlines(), err=True)
        complain(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; nothing is left to print
        return 1
    except Exception as error:
        if "--debug" in words:
            say(*traceback.format_exc().splitlines(), err=True)
        complain(
            f"unexpected {type(error).__name__}: {error}",
            "run it again with --debug before the command, and report it.",
        )
        return 1
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        for one, handler in previous.items():
            signal.signal(one, handler)
        session.tell_superuser = session.tell_nobody
    return code if isinstance(code, int) else 0


def _tell_superuser(role: str) -> None:
    """Say once that less would do."""
    complain(f'role "{role}" is a superuser; a role with pg_monitor is enough')


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Repeat an interrupt that came while Python removed an object, where no exception gets out."""
    if lost.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        sys.__unraisablehook__(lost)
