# SPDX-License-Identifier: PostgreSQL
"""The command line: it calls other rooms, and prints what they return.

No other room prints.  An error that the user can act on is one line and a hint, with the
error's exit code; a traceback appears only with --debug.  Ctrl-C ends with one line and
exit code 130, after everything that was started has been stopped.

Another distribution adds a command by an entry point of GUESTS; it is loaded when it is called, or
listed.
"""

import functools
import signal
import sys
import traceback
from importlib.metadata import entry_points
from types import FrameType

import click

import pgflash
from pgflash import session
from pgflash.cli import (
    advise,
    baseline,
    cache,
    completion,
    devices,
    doctor,
    fleet,
    memory,
    place,
    plan,
    report,
    serve,
    snapshots,
    top,
    version,
)
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


class MissingError(PgflashError):
    """A command needs a distribution that is not installed."""


class _Commands(click.Group):
    """Our own commands, and those of other distributions."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(context), *entry_points(group=GUESTS).names})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command; another distribution's is loaded now."""
        own = super().get_command(context, name)
        if own is not None:
            return own
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


command.add_command(baseline.baseline_command)
command.add_command(cache.cache_command)
command.add_command(completion.completion_command)
command.add_command(devices.devices_command)
command.add_command(doctor.check_command)
command.add_command(doctor.doctor_command)
command.add_command(fleet.fleet_command)
command.add_command(memory.memory_command)
command.add_command(place.place)
command.add_command(plan.plan)
command.add_command(serve.serve_command)
command.add_command(snapshots.snapshot_command)
command.add_command(snapshots.snapshots_command)
command.add_command(top.top_command)
command.add_command(version.version_command)
command.add_command(report.report_command)
command.add_command(report.compare_command)
command.add_command(advise.advise_command)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    # A signal that ends us must clean up as Ctrl-C does.
    previous = signal.signal(signal.SIGTERM, _interrupt)
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
        signal.signal(signal.SIGTERM, previous)
        session.tell_superuser = session.tell_nobody
    return code if isinstance(code, int) else 0


def _tell_superuser(role: str) -> None:
    """Say once that less would do."""
    complain(f'role "{role}" is a superuser; a monitoring role is enough: docs/guide/roles.md')


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
