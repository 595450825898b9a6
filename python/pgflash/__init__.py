# SPDX-License-Identifier: PostgreSQL
"""pgflash: put flash where a PostgreSQL database waits for its storage, and prove the gain."""

__version__ = "0.2.0"
