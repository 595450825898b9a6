# SPDX-License-Identifier: PostgreSQL
"""The program pgflash, also as python -m pgflash."""

import signal
import sys


def main() -> int:
    """Run the command line of this process and return its exit code.

    Until everything is imported there is nothing to clean up: Ctrl-C ends the process at once.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pgflash import cli

    signal.signal(signal.SIGINT, handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
