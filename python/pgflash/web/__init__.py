# SPDX-License-Identifier: PostgreSQL
"""The live page: HTTP around what pgflash.live collects.

Nothing is kept on disk, and nothing on the server is changed.  Needs the extra `web` (starlette,
uvicorn).
"""
