# SPDX-License-Identifier: PostgreSQL
"""Parameters of a workload for tests that run it without the lab: the least that it needs."""

from typing import Any, TypeVar

from pgflash_lab.parameters import Parameters

P = TypeVar("P", bound=Parameters)


def parameters_of(kind: type[P], **own: object) -> P:
    """Return a workload's parameters: OWN, and the least of those that all workloads have."""
    every: dict[str, Any] = {"clients": 2, "measure_s": 1, "shared_buffers": "1MB"}
    every |= {"array": "nvme", "flash": "nvme", **own}
    return kind(**every)
