# SPDX-License-Identifier: PostgreSQL
"""Advice: is storage the bottleneck, what would flash bring where, and what does it cost.

Pure: a report (or an Oracle AWR report) and what is known of the devices come in, an
advice comes out.  work.py reads what was asked for, media.py describes devices,
model.py predicts, the rest chooses and says.
"""
