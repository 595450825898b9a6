# SPDX-License-Identifier: PostgreSQL
"""python -m pgflash.cli is the program pgflash."""

import sys

from pgflash.cli import main

sys.exit(main())
