# SPDX-License-Identifier: PostgreSQL
"""The live page: one collector for all viewers, a ring of samples in memory, HTTP around it.

Nothing is kept on disk, and nothing of the server is changed.  Needs the extra `web`
(starlette, uvicorn); ring and collector alone do not.
"""
