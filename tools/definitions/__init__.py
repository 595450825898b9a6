# SPDX-License-Identifier: PostgreSQL
"""The files generated from definitions/: one module for each kind, with a function generated().

generated() returns the whole content of each file that it makes, so a file can be written or
compared. A file is either generated entirely or has generated parts between two marked lines; see
parts.py.  tools/generate.py runs all modules.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: The declarations.
DEFINITIONS = ROOT / "definitions"

#: The first words of the comment, in every language, that says that a file is generated.
NOTICE = "Generated from definitions/ by `make generate`."
