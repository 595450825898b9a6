# SPDX-License-Identifier: PostgreSQL
"""Rules about the network of a server: the queue of new connections, buffers, ports.

SanDisk raises net.core.rmem_max and its like.  They limit what a program may request, and
PostgreSQL requests nothing: the kernel sizes its buffers, within tcp_rmem and tcp_wmem.  Those
matter only for clients on other machines.
"""

from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_sysctl
from pgflash.advise.doctor.rules import (
    KERNEL_NET,
    MACHINE,
    SANDISK_SYSTEM,
    Rule,
    found,
    good,
    host_of,
    postgres,
    unknown,
)
from pgflash.model.doctor import Diagnosis, DoctorFacts, Outcome
from pgflash.model.sizes import MB
from pgflash.model.words import size, things, whole

#: The kernel's own; it was 128 before Linux 5.4.
QUEUE = 4096
#: The most that the kernel lets a connection have under way: its defaults.
BUFFERS = {"net.ipv4.tcp_rmem": 6 * MB, "net.ipv4.tcp_wmem": 4 * MB}
BUFFER_MIN = MB


def queue(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how many new connections may wait until the server takes them."""
    rule, name = "connection-queue", "net.core.somaxconn"
    value, clients = host_of(facts).sysctls.get(name), facts.server.number("max_connections")
    if value is None or clients is None:
        yield unknown(rule, MACHINE, f"{name} cannot be read.")
        return
    wanted = min(int(clients), QUEUE)
    if value >= wanted:
        yield good(rule, MACHINE, f"{whole(value)} new connections may wait at once ({name}).")
        return
    yield found(
        rule,
        Outcome.NOTE,
        MACHINE,
        f"{name} is {whole(value)}, max_connections {whole(clients)}.",
        reason="When many clients connect at once, as after a restart, those for whom there is no "
        "room try again seconds later, or are refused.",
        source=KERNEL_NET,
        commands=(*set_sysctl(name, QUEUE), "# it counts from the server's next start"),
    )


def buffers(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how much a connection may have under way, if clients are on other machines."""
    rule, remote = "network-buffers", facts.server.remote_sessions
    if remote is None:
        yield unknown(rule, MACHINE, "Where clients are may not be seen.")
        return
    if not remote:
        yield good(rule, MACHINE, "No client is on another machine now.")
        return
    small = False
    for name, default in BUFFERS.items():
        limits = host_of(facts).sysctl_lists.get(name, ())
        if len(limits) != 3:
            yield unknown(rule, MACHINE, f"{name} cannot be read.")
            return
        if limits[2] >= BUFFER_MIN:
            continue
        small = True
        yield found(
            rule,
            Outcome.NOTE,
            MACHINE,
            f"The kernel gives a connection {size(limits[2])} at most ({name}).",
            reason="A long result, a base backup or a standby's WAL goes no faster than that much "
            "in each round trip.",
            source=f"{SANDISK_SYSTEM} (4 MB); {KERNEL_NET}",
            commands=set_sysctl(name, f"{limits[0]} {limits[1]} {default}"),
        )
    if not small:
        many = things(remote, "session")
        yield good(rule, MACHINE, f"The kernel sizes the buffers of {many} from other machines.")


def ports(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether another program can be given the server's port."""
    rule, name = "port-range", "net.ipv4.ip_local_port_range"
    host, port = host_of(facts), facts.server.number("port")
    limits, reserved = host.sysctl_lists.get(name, ()), host.reserved_ports
    if port is None or len(limits) != 2 or reserved is None:
        yield unknown(rule, MACHINE, f"{name} or the server's port cannot be read.")
    elif not facts.server.settings.get("listen_addresses", "*"):
        yield good(rule, MACHINE, "The server takes no connections from the network.")
    elif not limits[0] <= port <= limits[1] or _has(reserved, int(port)):
        yield good(rule, MACHINE, f"The kernel gives port {port:g} to no other program.")
    else:
        yield found(
            rule,
            Outcome.WARNING,
            MACHINE,
            f"The server's port {port:g} is one of those that the kernel gives to connections from "
            "here to elsewhere.",
            reason="While the server is down another program can get it; then the server does not "
            "start again.",
            source=f"{postgres('Starting the Database Server')}; {KERNEL_NET}",
            commands=set_sysctl(
                "net.ipv4.ip_local_reserved_ports", ",".join(filter(None, (reserved, f"{port:g}")))
            ),
        )


def _has(reserved: str, port: int) -> bool:
    """Tell whether a list of ports and ranges has a port."""
    for part in filter(None, reserved.split(",")):
        first, _dash, last = part.partition("-")
        if int(first) <= port <= int(last or first):
            return True
    return False


NETWORK_RULES: tuple[Rule, ...] = (queue, buffers, ports)
