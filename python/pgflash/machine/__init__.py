# SPDX-License-Identifier: PostgreSQL
"""This machine, as the kernel shows it in /proc and /sys: the only room that reads them.

    tree        the kernel's files; in tests, a folder that holds some
    host        the whole machine: processors, memory, disks' counters
    processes   one process: its owner, its folder, its use of resources
    mounts      which mount a path is on
    disks       which disks are below a mount
    cgroup      how much memory a process may have
    programs    what an executable file imports

It returns what the kernel says, in seconds and bytes, and knows neither a server nor a report.
"""
