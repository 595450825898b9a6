# SPDX-License-Identifier: PostgreSQL
"""pgflash devices, pgflash devices probe: what the cluster's files are on, and how fast it is."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from pgflash import api
from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import (
    FiniteRange,
    bytes_of,
    dsn_option,
    examples,
    form_option,
    paged_option,
    probes_option,
)
from pgflash.cli.output import print_json, print_records, say, say_table
from pgflash.cli.screen import Screen, patiently
from pgflash.errors import UsageError
from pgflash.model.awr import ReportTable, Row, Unit
from pgflash.model.device import DeviceFacts, Probe
from pgflash.model.words import duration, money, size
from pgflash.model.words import figure as number

_COLUMNS = (
    "name",
    "mount_point",
    "parts",
    "media",
    "emulated",
    "file_system",
    "size_bytes",
    "free_bytes",
    "block_device",
    "scheduler",
    "queue_depth",
    "read_ahead_bytes",
    "alignment_bytes",
    "mount_options",
)


@click.group(
    "devices",
    invoke_without_command=True,
    epilog=examples(
        "pgflash devices",
        "pgflash devices --all --prices prices.toml",
        "pgflash devices probe /mnt/flash -o flash.json",
    ),
)
@dsn_option()
@click.option(
    "--all", "every", is_flag=True, help="Also list the devices that hold no part of the cluster."
)
@click.option(
    "--prices",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File (TOML) with the prices of devices.",
)
@probes_option
@form_option()
@click.pass_context
@paged_option
def devices_command(
    context: click.Context,
    *,
    dsn: str | None,
    every: bool,
    prices: Path | None,
    probes: tuple[Path, ...],
    form: str,
) -> None:
    """List the devices that hold the parts of a local cluster.

    The parts are data, WAL, tablespaces, archive, temporary and cache files, by mount point. What
    cannot be determined is "unknown", with the reason.
    """
    if context.invoked_subcommand is not None:
        return
    with patiently("looking for devices"):
        found = api.devices(dsn=dsn, every=every, prices=prices, probes=probes)
    _print(form, found)


def _print(form: str, found: tuple[DeviceFacts, ...]) -> None:
    if form == "json":
        print_json([asdict(one) for one in found])
    elif form == "csv":
        print_records(_COLUMNS, map(_record, found))
    else:
        _print_devices(found)


def _record(one: DeviceFacts) -> dict[str, object]:
    record = {name: getattr(one, name) for name in _COLUMNS}
    record["parts"] = "; ".join(one.parts)
    record["mount_options"] = ",".join(one.mount_options)
    return record


def _print_devices(found: tuple[DeviceFacts, ...]) -> None:
    columns = (
        text("mount_point", "mount point"),
        text("device", "device"),
        text("media", "media"),
        text("file_system", "file system"),
        figure("size", "size", Unit.BYTES),
        figure("free", "free", Unit.BYTES),
        text("parts", "holds"),
    )
    rows = tuple(map(_row, found))
    say_table(ReportTable(id="devices", title="Devices", columns=columns, rows=rows))
    for one in found:
        for line in _notes(one):
            say(f"{one.mount_point or one.name}: {line}.")


def _row(one: DeviceFacts) -> Row:
    return row(
        one.mount_point or "unknown",
        one.block_device or one.name,
        f"{one.media}{', emulated' if one.emulated else ''}",
        one.file_system,
        one.size_bytes,
        one.free_bytes,
        ", ".join(one.parts),
    )


def _notes(one: DeviceFacts) -> Iterator[str]:
    """Yield what does not fit into the table, a line each."""
    why = one.unknown.get("mount_point") or one.unknown.get("media")
    if why:
        yield f"unknown: {why}"
    if one.ephemeral:
        yield f"empty after a stop of the machine ({one.ephemeral})"
    facts = [f"scheduler {one.scheduler}"] if one.scheduler else []
    if one.queue_depth is not None:
        facts.append(f"{one.queue_depth} requests queued at most")
    if one.read_ahead_bytes is not None:
        facts.append(f"read-ahead {size(one.read_ahead_bytes)}")
    if one.alignment_bytes is not None:
        facts.append(f"aligned to {size(one.alignment_bytes)}")
    if one.mount_options:
        facts.append(f"mounted with {','.join(one.mount_options)}")
    if facts:
        yield ", ".join(facts)
    if one.probe is not None:
        yield _sentence(one.probe)
    if one.price is not None:
        price = one.price
        yield (
            f"costs {price.drives} x {money(price.unit_price, price.currency)}"
            f" + {money(price.enclosure_price, price.currency)} ({price.raid}; {price.source})"
        )


def _sentence(probe: Probe) -> str:
    first, last = probe.random_reads[0], probe.random_reads[-1]
    return (
        f"{duration(first.mean_ms / 1000)} a random read, {number(last.iops)} reads/s with "
        f"{last.depth} at once, {size(probe.read_bytes_s)}/s read and "
        f"{size(probe.write_bytes_s)}/s written in order, {duration(probe.sync_ms / 1000)} a sync "
        f"(by {probe.by}, {probe.at})"
    )


# ---- probe


@devices_command.command(
    "probe",
    epilog=examples(
        "pgflash devices probe /mnt/flash",
        "pgflash devices probe /mnt/disk --size 8GB --seconds 10 -o disk.json",
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--size",
    "size_bytes",
    default="1GB",
    show_default=True,
    callback=bytes_of,
    help="Size of the test file; should be larger than the cache of the device.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0.1, max=600),
    default=3.0,
    show_default=True,
    help="Duration of each of the seven steps.",
)
@click.option("--without-fio", is_flag=True, help="Do not use fio, even if it is installed.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the result, for 'pgflash devices --probe' and 'pgflash advise'.",
)
@form_option()
def probe_command(
    *,
    folder: Path,
    size_bytes: int,
    seconds: float,
    without_fio: bool,
    output: Path | None,
    form: str,
) -> None:
    """Measure the device that DIR is on.

    Measures random reads of 8 kB at several depths, sequential reads and writes, and the sync of
    a commit, on a new unnamed file.  No existing file is touched, and nothing is left behind.
    This puts load on the device.
    """
    if output is not None and not api.is_folder(output.absolute().parent):
        raise UsageError(f'there is no folder for "{output}"')
    with Screen() as screen:
        probed = api.devices_probe(
            folder, size_bytes=size_bytes, seconds=seconds, use_fio=not without_fio, listener=screen
        )
    if output is not None:
        api.write_probe(output, probed)
    if form == "json":
        print_json(asdict(probed))
    elif form == "csv":
        depths = [asdict(point) for point in probed.probe.random_reads]
        print_records(tuple(depths[0]), depths)
    else:
        say(f"{probed.name} at {probed.mount_point or probed.folder}:")
        _print_probe(probed.probe)


def _print_probe(probe: Probe) -> None:
    columns = (
        figure("depth", "random reads at once", Unit.COUNT),
        figure("iops", "reads/s", Unit.PER_SECOND),
        figure("mean_ms", "mean", Unit.MILLISECONDS),
        figure("p99_ms", "99 % within", Unit.MILLISECONDS),
    )
    rows = (row(one.depth, one.iops, one.mean_ms, one.p99_ms) for one in probe.random_reads)
    say_table(ReportTable(id="probe", title="Random reads", columns=columns, rows=tuple(rows)))
    say(
        f"In order: {size(probe.read_bytes_s)}/s read, {size(probe.write_bytes_s)}/s written.",
        f"A write of 8 kB with its sync: {duration(probe.sync_ms / 1000)}, 99 % within "
        f"{duration(probe.sync_p99_ms / 1000)}.",
        f"Measured by {probe.by}.",
    )
