# SPDX-License-Identifier: PostgreSQL
"""What several test folders share."""
