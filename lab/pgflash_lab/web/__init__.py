# SPDX-License-Identifier: PostgreSQL
"""The pages of the lab within the live page."""
