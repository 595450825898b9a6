# SPDX-License-Identifier: PostgreSQL
"""Which class a wait belongs to, across the majors' spellings."""

import pytest

from pgflash.model.waits import WaitClass, wait_class
from support.waits import WAITS_OF_CLIENTS

CLIENT = "client backend"


@pytest.mark.parametrize(("wait_type", "event", "expected"), WAITS_OF_CLIENTS)
def test_a_clients_wait_has_its_class(wait_type: str, event: str, expected: WaitClass) -> None:
    assert wait_class(backend_type=CLIENT, wait_type=wait_type, event=event) is expected


@pytest.mark.parametrize("backend", ["checkpointer", "walwriter", "io worker", "walsender"])
def test_what_serves_no_client_is_system_io_and_no_db_time(backend: str) -> None:
    found = wait_class(backend_type=backend, wait_type="IO", event="WalSync")
    assert found is WaitClass.SYSTEM_IO
    assert not found.counts


def test_a_background_process_at_work_is_no_db_time() -> None:
    assert not wait_class(backend_type="checkpointer", wait_type="", event="").counts


def test_a_parallel_worker_is_a_session() -> None:
    found = wait_class(backend_type="parallel worker", wait_type="IO", event="DataFileRead")
    assert found is WaitClass.USER_IO
