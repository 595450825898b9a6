# SPDX-License-Identifier: PostgreSQL
"""The failover workload as the lab sees it: the oltp one, on the same loaded databases.

It is measured by failover/attempt.py, not by measure().
"""

from pgflash_lab.failover.model import FailoverParameters
from pgflash_lab.oltp.model import OltpParameters
from pgflash_lab.oltp.workload import OltpWorkload
from pgflash_lab.patroni import require_patroni
from pgflash_lab.postgres import PgInstall

#: How long it takes about until a cluster is whole, and a planned switchover.
_START_S = 15.0
_SWITCH_S = 3.0


class FailoverWorkload(OltpWorkload):
    """TPC-C-like transactions on three members under Patroni."""

    parameters: type[OltpParameters] = FailoverParameters

    def require(self, install: PgInstall, parameters: OltpParameters) -> None:
        """Refuse an environment without Patroni, and a PostgreSQL without pgbench."""
        require_patroni()
        install.program("pg_rewind")
        super().require(install, parameters)

    def prepare_s(self, parameters: OltpParameters) -> float:
        """Return how long the members' start, the warm-up and the list take."""
        assert isinstance(parameters, FailoverParameters)
        return _START_S + super().prepare_s(parameters) + (_START_S if parameters.warm else 0.0)

    def expected_s(self, parameters: OltpParameters) -> float:
        """Return how long the load takes, with the time until the promotion."""
        assert isinstance(parameters, FailoverParameters)
        outage_s = _SWITCH_S if parameters.planned else parameters.ttl_s
        return super().expected_s(parameters) + parameters.before_s + outage_s
