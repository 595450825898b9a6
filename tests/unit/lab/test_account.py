# SPDX-License-Identifier: PostgreSQL
"""What runs as the server's user ends with its driver, and does not begin without it."""

import subprocess
import sys

from pgflash_lab.account import as_server_user


def test_a_command_does_not_begin_once_its_driver_is_gone() -> None:
    words = as_server_user(with_driver="TERM")
    here = subprocess.run([*words, "echo", "runs"], capture_output=True, text=True, check=False)
    assert (here.returncode, here.stdout) == (0, "runs\n")
    # Another process than the one that the words were made for starts it.
    start = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)"
    elsewhere = subprocess.run(
        [sys.executable, "-c", start, *words, "echo", "runs"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (elsewhere.returncode, elsewhere.stdout) == (1, "")
