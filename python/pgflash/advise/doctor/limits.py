# SPDX-License-Identifier: PostgreSQL
"""Rules about shared memory and limits: /dev/shm, System V, files, processes, asynchronous I/O.

SanDisk raises shmmax, shmall, aio-max-nr, file-max, and the shell's limits.  By default
PostgreSQL needs little System V shared memory; these rules check what it and the cache need
instead.
"""

from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_limit, set_option, set_parameter, set_sysctl
from pgflash.advise.doctor.rules import (
    KERNEL_FS,
    MACHINE,
    SANDISK_SYSTEM,
    Rule,
    found,
    good,
    host_of,
    postgres,
    unknown,
)
from pgflash.model.doctor import UNLIMITED, Diagnosis, DoctorFacts, HostSettings, Outcome
from pgflash.model.words import size, whole

#: Room that parallel queries and the cache's own memory need in /dev/shm; containers have 64 MB.
SHM_MIN_BYTES = 256 * 2**20

#: Requests that each process with a cache prepares for: core/src/queue.h.
AIO_PER_PROCESS = 32

#: systemd takes users from this one on for people: UID_MIN of login.defs.
PEOPLE_FROM_UID = 1000

_FILES = "Max open files"
_PROCESSES = "Max processes"
_STACK = "Max stack size"

#: What PostgreSQL keeps between max_stack_depth and the limit, what it takes by itself, and Linux's
#: usual limit.
STACK_SPARE_BYTES = 512 * 1024
STACK_DEPTH_BYTES = 2 * 2**20
STACK_BYTES = 8 * 2**20


def _processes(facts: DoctorFacts) -> int:
    """Return how many processes the server may have."""
    names = ("max_connections", "max_worker_processes", "max_wal_senders")
    return int(sum(facts.server.number(name) or 0 for name in names)) + 32


def shared_memory(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check the room in /dev/shm."""
    host, rule = host_of(facts), "shared-memory"
    kind = facts.server.settings.get("dynamic_shared_memory_type", "posix")
    if host.shm_bytes is None:
        yield unknown(rule, MACHINE, "The size of /dev/shm cannot be seen.")
    elif kind != "posix" or host.shm_bytes >= SHM_MIN_BYTES:
        yield good(rule, MACHINE, f"/dev/shm has {size(host.shm_bytes)}.")
    else:
        yield found(
            rule,
            Outcome.WARNING,
            MACHINE,
            f"/dev/shm has {size(host.shm_bytes)}.",
            reason="Parallel queries share their memory there and fail where it ends; the cache "
            "keeps its own there to be warm after a crash.",
            source=f"{postgres('Resource Consumption, dynamic_shared_memory_type')}; "
            f"{SANDISK_SYSTEM} (shmmax)",
            commands=_larger_shm(host),
        )


def _larger_shm(host: HostSettings) -> tuple[str, ...]:
    if host.container.lower() in ("kubernetes", "kubepods"):
        return ("# in the pod: a volume emptyDir with medium: Memory, mounted on /dev/shm",)
    if host.container:
        return ("docker run --shm-size=1g ...",)
    now, *then = set_option(host, "/dev/shm", "size=1G")
    if "/dev/shm" not in host.fstab:
        then = ["echo 'tmpfs /dev/shm tmpfs nosuid,nodev,size=1G 0 0' >> /etc/fstab"]
    return (now, *then)


def system_v(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check System V's limits, if shared memory is of that kind."""
    host, rule = host_of(facts), "system-v-memory"
    shared = facts.server.size_bytes("shared_memory_size")
    largest = host.sysctls.get("kernel.shmmax")
    if facts.server.settings.get("shared_memory_type", "mmap") != "sysv":
        yield good(
            rule, MACHINE, "Shared memory is not System V's: shmmax and shmall do not matter."
        )
    elif shared is None or largest is None:
        yield unknown(rule, MACHINE, "kernel.shmmax or the size of shared memory cannot be seen.")
    elif largest >= 2 * shared:
        yield good(rule, MACHINE, f"kernel.shmmax is {size(min(largest, 2**60))}.")
    else:
        yield found(
            rule,
            Outcome.WARNING,
            MACHINE,
            f"kernel.shmmax is {size(largest)}, shared memory {size(shared)}.",
            reason="With a little more shared_buffers the server does not start.",
            source=f"{SANDISK_SYSTEM}; {postgres('Managing Kernel Resources')}",
            commands=set_sysctl("kernel.shmmax", 4 * shared),
        )


def remove_ipc(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the server loses its shared memory when its user logs out."""
    host, rule = host_of(facts), "remove-ipc"
    if host.remove_ipc is None:
        yield good(rule, MACHINE, "There is no systemd that removes shared memory.")
    elif not host.remove_ipc:
        yield good(rule, MACHINE, "systemd leaves shared memory alone (RemoveIPC=no).")
    elif host.postmaster_uid is None:
        yield unknown(rule, MACHINE, "Which user the server runs as is not seen.")
    elif host.postmaster_uid < PEOPLE_FROM_UID:
        yield good(rule, MACHINE, "systemd leaves alone what system users have in shared memory.")
    else:
        yield found(
            rule,
            Outcome.WARNING,
            MACHINE,
            f"The server runs as user {host.postmaster_uid}, whose shared memory systemd removes "
            "when he logs out (RemoveIPC).",
            reason="Parallel queries fail then, and the cache is cold after the next crash.",
            source=postgres("Managing Kernel Resources, systemd RemoveIPC"),
            commands=(
                "mkdir -p /etc/systemd/logind.conf.d",
                "printf '[Login]\\nRemoveIPC=no\\n' > /etc/systemd/logind.conf.d/zz-pgflash.conf",
                "systemctl restart systemd-logind",
            ),
        )


def open_files(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how many files a process may have open."""
    host, rule = host_of(facts), "open-files"
    limit = host.limits.get(_FILES)
    wanted = facts.server.number("max_files_per_process")
    if limit is None or wanted is None:
        yield unknown(rule, MACHINE, "How many files a process may open is not seen.")
    elif limit >= wanted:
        said = "as many as it likes" if limit == UNLIMITED else whole(limit)
        yield good(rule, MACHINE, f"A process of the server may open {said} files.")
    else:
        yield found(
            rule,
            Outcome.NOTE,
            MACHINE,
            f"A process of the server may open {whole(limit)} files, less than "
            f"max_files_per_process ({whole(wanted)}).",
            reason="Sessions close and open files again and again where a database has many.",
            source=f"{SANDISK_SYSTEM} (nofile); {postgres('Managing Kernel Resources')}",
            # A service whose limit is above fs.nr_open is not started.
            commands=set_limit(
                host, "nofile", min(max(65_536, int(wanted)), host.sysctls.get("fs.nr_open", 2**20))
            ),
        )


def all_files(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how many files the machine may have open."""
    limit = host_of(facts).sysctls.get("fs.file-max")
    each = facts.server.number("max_files_per_process")
    if limit is None or each is None:
        yield unknown("file-max", MACHINE, "fs.file-max cannot be read.")
        return
    wanted = int(each) * _processes(facts)
    if limit >= wanted:
        yield good("file-max", MACHINE, "The machine may open as many files as the server may.")
        return
    yield found(
        "file-max",
        Outcome.NOTE,
        MACHINE,
        f"fs.file-max is {whole(limit)}; all processes of the server could open {whole(wanted)}.",
        reason="Beyond it no program of the machine can open a file.",
        source=f"{SANDISK_SYSTEM} (6815744); {KERNEL_FS}",
        commands=set_sysctl("fs.file-max", max(6_815_744, 2 * wanted)),
    )


def processes(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how many processes the server's user may have."""
    host = host_of(facts)
    limit = host.limits.get(_PROCESSES)
    wanted = _processes(facts)
    if limit is None:
        yield unknown("processes", MACHINE, "How many processes the server may have is not seen.")
    elif limit >= wanted:
        yield good("processes", MACHINE, f"The server's user may have {wanted} processes and more.")
    else:
        yield found(
            "processes",
            Outcome.WARNING,
            MACHINE,
            f"The server's user may have {whole(limit)} processes; by its settings it could need "
            f"{whole(wanted)}.",
            reason="Connections are refused, or autovacuum and parallel queries get no workers.",
            source=f"{SANDISK_SYSTEM} (nproc); {postgres('Managing Kernel Resources')}",
            commands=set_limit(host, "nproc", max(16_384, 2 * wanted)),
        )


def stack(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether a deep recursion ends in an error before the stack ends."""
    host, rule = host_of(facts), "stack-limit"
    limit, depth = host.limits.get(_STACK), facts.server.size_bytes("max_stack_depth")
    if limit is None or depth is None:
        yield unknown(rule, MACHINE, "How large the server's stack may become is not seen.")
        return
    said = "any size" if limit == UNLIMITED else size(limit)
    sentence = f"The server's stack may have {said}, max_stack_depth is {size(depth)}."
    if depth + STACK_SPARE_BYTES > limit:
        outcome = Outcome.WARNING
        commands = set_limit(host, "stack", max(STACK_BYTES, 2 * depth))
        reason = "A query that is nested deeply enough ends the process rather than in an error; "
        reason += "then all sessions end, and the server recovers."
    elif depth < STACK_DEPTH_BYTES:
        outcome = Outcome.NOTE
        if limit >= STACK_DEPTH_BYTES + STACK_SPARE_BYTES:  # it was set, not taken from the limit
            commands = set_parameter("max_stack_depth", "'2MB'")
        else:
            commands = set_limit(host, "stack", STACK_BYTES)
        reason = "Long expressions and nested functions fail that work elsewhere: the server takes "
        reason += "2 MB by itself if its limit allows it."
    else:
        yield good(rule, MACHINE, sentence)
        return
    yield found(
        rule,
        outcome,
        MACHINE,
        sentence,
        reason=reason,
        source=f"{SANDISK_SYSTEM} (stack); {postgres('Resource Consumption, max_stack_depth')}",
        commands=commands,
    )


def asynchronous_requests(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether every process gets a queue for reading flash."""
    host, rule = host_of(facts), "aio-max-nr"
    if not facts.server.settings.get("pgflash.cache_file"):
        return
    limit, used = host.sysctls.get("fs.aio-max-nr"), host.sysctls.get("fs.aio-nr") or 0
    if limit is None:
        yield unknown(rule, MACHINE, "fs.aio-max-nr cannot be read.")
        return
    # The present use is partly the server's own, so it must not be counted twice.
    wanted = AIO_PER_PROCESS * _processes(facts)
    if limit >= max(wanted, used + AIO_PER_PROCESS):
        yield good(
            rule, MACHINE, f"fs.aio-max-nr is {whole(limit)}, of which {whole(used)} are in use."
        )
        return
    yield found(
        rule,
        Outcome.WARNING,
        MACHINE,
        f"fs.aio-max-nr is {whole(limit)}; with all sessions the cache could use {whole(wanted)}.",
        reason="A process without a queue of its own reads flash one block after the other, and "
        "without a deadline.",
        source=f"{SANDISK_SYSTEM} (1048576); {KERNEL_FS}",
        commands=set_sysctl("fs.aio-max-nr", max(1_048_576, 2 * wanted)),
    )


def asynchronous_calls(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the server may use AIO at all, which some sandboxes forbid."""
    host, rule = host_of(facts), "aio"
    if not facts.server.settings.get("pgflash.cache_file"):
        return
    if host.has_aio is None:
        yield unknown(rule, MACHINE, "The process that writes to flash is not seen.")
    elif host.has_aio:
        yield good(rule, MACHINE, "The process that writes to flash has a queue of AIO.")
    else:
        yield found(
            rule,
            Outcome.WARNING,
            MACHINE,
            "The process that writes to flash has no queue of AIO: io_setup() is forbidden here, "
            "or no request was left.",
            reason="Flash is written and read one block after the other, and reads have no "
            "deadline.",
            source="docs/guide/install.md; Linux, io_setup(2)",
            commands=(
                "# allow io_setup, io_submit, io_getevents and io_destroy in the container's "
                "seccomp profile, or see aio-max-nr",
            ),
        )


LIMIT_RULES: tuple[Rule, ...] = (
    shared_memory,
    system_v,
    remove_ipc,
    open_files,
    all_files,
    processes,
    stack,
    asynchronous_requests,
    asynchronous_calls,
)
