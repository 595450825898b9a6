# SPDX-License-Identifier: PostgreSQL
"""Advice: is storage the bottleneck, what would flash bring where, and what does it cost.

The code is pure: a report (or an Oracle AWR report) and what is known of the devices go in, an
advice comes out. work.py reads the period's work, media.py describes devices, model.py predicts;
the other modules choose and put the advice into words.
"""
