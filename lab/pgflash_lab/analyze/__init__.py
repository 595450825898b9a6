# SPDX-License-Identifier: PostgreSQL
"""What follows from runs and papers: costs, and what the advice would have foretold."""
