# SPDX-License-Identifier: PostgreSQL
"""What five papers on Oracle and flash printed in their tables.

Numbers are facts and stand here as printed, with where they were printed:

    000  "Accelerating Oracle Transactional Databases with SanDisk Flash Storage", 2015
    001  "Optimizing Oracle Database Performance on Oracle Linux with Flash", Oracle, 2014
    002  "Boost Oracle Data Warehouse Performance Using SanDisk Solid State Drives"
    003  "Database Flash Disk Performance" (Sun Storage F5100)
    004  "Oracle 11gR2 I/O Performance Tuning: Using Solid State Drives" (J. Czuprynski)

Rows of events: event, waits, seconds, average milliseconds, percent of DB time, class.
Where a scan left a stray point or bracket behind a number it is left out.
"""

Event = tuple[str, str, str, str, str, str]

#: 000, figure 3: wait classes of the baseline: class, waits, s, ms, %, average sessions.
CLASSES_000_3: tuple[Event, ...] = (
    ("User I/O", "14,404,027", "196,059", "13.61", "55.1", "54.0"),
    ("Commit", "8,272,975", "138,131", "16.70", "38.8", "38.1"),
    ("System I/O", "2,474,156", "21,987", "8.89", "6.2", "6.1"),
    ("DB CPU", "", "17,457", "", "4.9", "4.8"),
    ("Configuration", "2,141", "2,202", "1028.64", ".6", "0.6"),
    ("Concurrency", "1,171,967", "1,719", "1.47", ".5", "0.5"),
    ("Application", "19,647", "966", "49.17", ".3", "0.3"),
    ("Other", "68,609", "334", "4.86", ".1", "0.1"),
    ("Network", "9,060,098", "12", "0.00", ".0", "0.0"),
)

#: 000, figure 4: flash cache.
EVENTS_000_4: tuple[Event, ...] = (
    ("log file sync", "11,236,170", "238.5K", "21.23", "67.5", "Commit"),
    ("db file sequential read", "6,026,655", "78.7K", "13.06", "22.3", "User I/O"),
    ("DB CPU", "", "25.2K", "", "7.1", ""),
    (
        "db flash cache single block physical read",
        "19,933,363",
        "5558.7",
        "0.28",
        "1.6",
        "User I/O",
    ),
    ("library cache: mutex X", "2,350,834", "4100.9", "1.74", "1.2", "Concurrency"),
    ("enq: TX - row lock contention", "39,292", "1246.7", "31.73", ".4", "Application"),
    (
        "log file switch (private strand flush incomplete)",
        "1,771",
        "253.2",
        "142.98",
        ".1",
        "Configuration",
    ),
    ("db file scattered read", "11,058", "183.7", "16.61", ".1", "User I/O"),
    ("cursor: pin S", "96,647", "105.8", "1.09", ".0", "Concurrency"),
    ("write complete waits: flash cache", "494", "83.6", "169.28", ".0", "Configuration"),
)

#: 000, figure 7: redo log on flash.
EVENTS_000_7: tuple[Event, ...] = (
    ("db file sequential read", "14,343,567", "253K", "17.64", "70.4", "User I/O"),
    (
        "log file switch (checkpoint incomplete)",
        "1,960",
        "51.3K",
        "26175.84",
        "14.3",
        "Configuration",
    ),
    ("DB CPU", "", "25.8K", "", "7.2", ""),
    ("free buffer waits", "5,074", "22.1K", "4356.45", "6.2", "Configuration"),
    ("log file sync", "13,476,872", "3581.2", "0.27", "1.0", "Commit"),
    ("enq: TX - row lock contention", "38,968", "2407.5", "61.78", ".7", "Application"),
    ("db flash cache single block physical read", "3,779,024", "875.1", "0.23", ".2", "User I/O"),
    ("db file scattered read", "10,996", "548.5", "49.88", ".2", "User I/O"),
    ("read by other session", "24,230", "462.5", "19.09", ".1", "User I/O"),
    ("enq: FB - contention", "55", "261.8", "4760.43", ".1", "Other"),
)

#: 000, figure 9: hot objects on flash.
EVENTS_000_9: tuple[Event, ...] = (
    ("db file sequential read", "34,743,844", "200.8K", "5.78", "69.3", "User I/O"),
    ("DB CPU", "", "52.4K", "", "18.1", ""),
    (
        "log file switch (checkpoint incomplete)",
        "3,035",
        "21.4K",
        "7039.19",
        "7.4",
        "Configuration",
    ),
    ("log file sync", "24,907,581", "7263.1", "0.29", "2.5", "Commit"),
    ("free buffer waits", "1,439", "3671.9", "2551.67", "1.3", "Configuration"),
    ("enq: TX - row lock contention", "59,326", "2401.1", "40.47", ".8", "Application"),
    ("read by other session", "69,711", "1517.7", "21.77", ".5", "User I/O"),
    ("buffer busy waits", "56,183", "312.4", "5.56", ".1", "Concurrency"),
    ("library cache: mutex X", "155,829", "299.9", "1.92", ".1", "Concurrency"),
    ("cursor: pin S", "217,999", "243.1", "1.11", ".1", "Concurrency"),
)

#: 000, figure 11: everything on flash.
EVENTS_000_11: tuple[Event, ...] = (
    ("DB CPU", "", "115.3K", "", "36.1", ""),
    ("db file sequential read", "80,900,010", "93.1K", "1.15", "29.2", "User I/O"),
    ("log file sync", "42,783,790", "90.4K", "2.11", "28.3", "Commit"),
    ("library cache: mutex X", "1,460,527", "4174", "2.86", "1.3", "Concurrency"),
    ("cursor: pin S", "1,929,027", "3286.2", "1.70", "1.0", "Concurrency"),
    ("buffer busy waits", "249,163", "1992.4", "8.00", ".6", "Concurrency"),
    ("latch: enqueue hash chains", "444,775", "1658.9", "3.73", ".5", "Other"),
    ("latch: In memory undo latch", "1,459,564", "757", "0.52", ".2", "Concurrency"),
    ("enq: TX - row lock contention", "78,964", "313.4", "3.97", ".1", "Application"),
    (
        "log file switch (private strand flush incomplete)",
        "5,251",
        "221.4",
        "42.17",
        ".1",
        "Configuration",
    ),
)

#: 001: top 5 events with hard drives.
EVENTS_001_DISK: tuple[Event, ...] = (
    ("db file sequential read", "1,889,017", "119,533", "63", "97.1", "User I/O"),
    ("db file parallel read", "8,249", "1,597", "194", "1.3", "User I/O"),
    ("DB CPU", "", "1,508", "", "1.23", ""),
    ("read by other session", "15,544", "796", "51", "0.65", "User I/O"),
    ("log file sync", "57,122", "30", "0.525", "0.02", "Commit"),
)

#: 001: top 5 events with the flash cache, but for the last one, which contradicts itself.
EVENTS_001_FLASH: tuple[Event, ...] = (
    ("db flash cache single block phys read", "21,467,471", "7,556", "0.352", "43.14", "User I/O"),
    ("read by other session", "14,492,743", "5,082", "0.351", "29.01", "User I/O"),
    ("db file sequential read", "214,400", "2,877", "13", "16.42", "User I/O"),
    ("DB CPU", "", "2,534", "", "14.47", ""),
)
LATCHES_001: Event = (
    "latch: cache buffers chains",
    "343,567",
    "32",
    "0.931",
    "0.18",
    "Concurrency",
)

#: 002, table 2: top 10 events with hard drives.
EVENTS_002_DISK: tuple[Event, ...] = (
    ("Direct Path Read", "603,973", "4,172.6", "7", "40.4", "User I/O"),
    ("DB CPU", "", "3,447.5", "", "33.4", ""),
    ("Direct Path Write Temp", "132,595", "1,027.1", "8", "9.9", "User I/O"),
    ("DB File Sequential Read", "203,042", "669.3", "3", "6.5", "User I/O"),
    ("Direct Path Read Temp", "199,340", "579.7", "3", "5.6", "User I/O"),
    ("Local Write Wait", "25,929", "148.2", "6", "1.4", "User I/O"),
    ("DB File Parallel Read", "25,422", "84.9", "3", ".8", "User I/O"),
    ("DB File Scattered Read", "5,596", "15.2", "3", ".1", "User I/O"),
    ("Buffer Busy Waits", "1,335", "14.9", "11", ".1", "Concurrency"),
    ("CRS Call Completion", "166", "5.9", "35", ".1", "Other"),
)

#: 002, table 4: the same with flash.
EVENTS_002_FLASH: tuple[Event, ...] = (
    ("DB CPU", "", "2,148.9", "", "75.0", ""),
    ("Direct Path Read", "700,047", "703.9", "1", "24.6", "User I/O"),
    ("Direct Path Read Temp", "53,905", "32.2", "1", "1.1", "User I/O"),
    ("Direct Path Write Temp", "11,242", "3.3", "0", ".1", "User I/O"),
    ("PX Deq: Slave Session Stats", "176", ".7", "4", "0", "Other"),
    ("DB File Scattered Read", "945", ".6", "1", "0", "User I/O"),
    ("PX Deq: Signal ACK EXT", "88", ".5", "6", "0", "Other"),
    ("Enq: BF Allocation Contention", "32", ".3", "10", "0", "Other"),
    ("SGA: Allocation Forcing Component Growth", "6", ".2", "33", "0", "Other"),
    ("DB File Sequential Read", "422", ".2", "0", "0", "User I/O"),
)

#: 002, tables 3 and 5: wait classes; the last number stands under "Wait Class", and is
#: average active sessions.
CLASSES_002_DISK: tuple[Event, ...] = (
    ("User I/O", "1,198,401", "6,702", "6", "64.9", "2.1"),
    ("DB CPU", "", "3,448", "", "33.4", "1.1"),
    ("System I/O", "79,943", "195", "2", "1.9", "0.1"),
    ("Other", "18,211", "26", "1", ".3", "0"),
    ("Concurrency", "2,665", "16", "6", ".2", "0"),
    ("Scheduler", "582", "5", "9", "0", "0"),
    ("Commit", "67", "3", "47", "0", "0"),
    ("Application", "17", "1", "66", "0", "0"),
)
CLASSES_002_FLASH: tuple[Event, ...] = (
    ("DB CPU", "", "2,149", "", "75.0", "1.2"),
    ("User I/O", "767,488", "740", "1", "25.8", ".4"),
    ("Other", "16,511", "3", "0", ".1", "0"),
    ("System I/O", "8,433", "3", "0", ".1", "0"),
)

#: 004: tablespace I/O, random reads: tablespace, reads, reads/s, ms, blocks/read, writes,
#: writes/s.
TABLESPACES_004_READ = (
    ("TSP_HDD", "33,977", "37", "11.22", "1.00", "1,602", "2"),
    ("TSP_SSD", "33,368", "37", "1.46", "1.00", "1,739", "2"),
    ("SYSAUX", "5,486", "6", "2.03", "1.17", "1,528", "2"),
)
#: 004: the same, random writes.
TABLESPACES_004_WRITE = (
    ("TSP_HDD", "44,719", "49", "10.28", "1.00", "15,037", "17"),
    ("TSP_SSD", "42,422", "47", "1.09", "1.00", "14,027", "16"),
    ("SYSAUX", "4,005", "4", "3.35", "1.09", "1,480", "2"),
)

#: 004, table 8.3: direct reads of data files: bytes, requests/s, MB/s.
FUNCTIONS_004 = (
    ("HDD", "53.1G", "1926.4", "60.1846"),
    ("SSD", "57.2G", "2072.19", "64.7419"),
)

#: 004, table 8.4: redo on hard drives: statistic, total, per second, per transaction.
REDO_004_DISK = (
    ("redo blocks written", "239,509", "264.9", "8.55"),
    ("redo entries", "265,946", "294.14", "9.49"),
    ("redo size", "111,990,896", "123,861.81", "3,996.53"),
    ("redo wastage", "6,503,176", "7,192.51", "232.07"),
    ("redo write time", "9,974", "11.03", "0.36"),
    ("redo writes", "27,974", "30.94", "1"),
)
REDO_004_FLASH = (
    ("redo blocks written", "238,390", "263.48", "8.54"),
    ("redo entries", "257,560", "284.67", "9.23"),
    ("redo size", "111,345,276", "123,065.27", "3,989.87"),
    ("redo size for direct writes", "57,596", "63.66", "2.06"),
    ("redo wastage", "6,574,024", "7,265.99", "235.57"),
    ("redo write time", "3,986", "4.41", "0.14"),
    ("redo writes", "28,521", "31.52", "1.02"),
)

#: 001: flash cache statistics.
FLASH_CACHE_001 = (
    ("flash cache inserts", 65_112_680),
    ("flash cache eviction: invalidated", 47_021_894),
    ("flash cache eviction: buffer pinned", 0),
    ("flash cache eviction: aged out", 0),
    ("flash cache insert skip: not current", 196_649),
    ("flash cache insert skip: DBWR overloaded", 0),
    ("flash cache insert skip: exists", 4_078_529_178),
    ("flash cache insert skip: not useful", 3_529_330),
    ("flash cache insert skip: modification", 871_703),
    ("flash cache insert skip: corrupt", 0),
)

#: 001: iostat: device, rrqm/s, wrqm/s, r/s, w/s, rMB/s, wMB/s, sectors/request, queue, await ms,
#: service ms, percent busy.
IOSTAT_001 = (
    (
        "sdc",
        "0.00",
        "0.20",
        "2.40",
        "76.40",
        "0.04",
        "0.35",
        "10.08",
        "0.04",
        "0.53",
        "0.29",
        "2.30",
    ),
    (
        "sdd",
        "6.60",
        "0.20",
        "1685.60",
        "712.40",
        "13.22",
        "2.84",
        "13.71",
        "50.33",
        "21.00",
        "0.41",
        "98.88",
    ),
    (
        "sda flash",
        "0.00",
        "0.00",
        "58994.00",
        "1421.60",
        "442.39",
        "8.48",
        "15.28",
        "16.01",
        "0.27",
        "0.02",
        "98.34",
    ),
    (
        "sdd flash",
        "0.00",
        "0.20",
        "313.80",
        "1230.40",
        "2.45",
        "5.19",
        "10.13",
        "13.45",
        "8.47",
        "0.64",
        "99.00",
    ),
    (
        "sdc flash",
        "0.00",
        "0.20",
        "138.20",
        "178.80",
        "1.10",
        "0.78",
        "12.20",
        "0.60",
        "1.90",
        "1.25",
        "39.48",
    ),
)

#: 001: vmstat with hard drives: si, so, bi, bo, in, cs, us, sy, id, wa, st.
VMSTAT_001 = (
    (0, 0, 13038, 2579, 7333, 9972, 2, 0, 78, 19, 0),
    (0, 0, 13194, 3027, 7529, 10251, 4, 0, 77, 18, 0),
    (0, 0, 14781, 2745, 8847, 11177, 6, 0, 73, 20, 0),
    (0, 0, 12541, 2969, 7843, 10269, 4, 0, 79, 17, 0),
    (0, 0, 13363, 2971, 8401, 10674, 4, 1, 77, 18, 0),
    (0, 0, 14010, 3076, 8442, 11088, 5, 0, 75, 20, 0),
    (0, 0, 13760, 2831, 7867, 10565, 4, 0, 77, 19, 0),
    (0, 0, 12688, 3448, 8061, 10458, 4, 0, 79, 17, 0),
    (0, 0, 14848, 3222, 9235, 11517, 7, 0, 71, 21, 0),
)

#: 000, figure 15: what the drives cost, in dollars, and the percentage it prints.
COST_000 = {"disk": 14_551.0, "flash": 6_268.0}
COST_PRINTED_000 = "63%"

#: 003: the write-intensive tests 1 and 5, with what the text calls an improvement in percent.
WRITES_003 = (
    ("elapsed minutes", 53.0, 8.0, 662, "less is better"),
    ("DB throughput avg. MB/s", 34.0, 130.0, 382, ""),
    ("DB IOPS avg.", 720.0, 2_000.0, 278, ""),
    ("CPU utilisation avg. %", 23.0, 92.0, 400, ""),
)
#: 003: the read-intensive tests 1 and 2.
READS_003 = (
    ("DB throughput peak MB/s", 340.0, 2_000.0, 588, ""),
    ("DB throughput avg. MB/s", 260.0, 1_980.0, 762, ""),
    ("server IOPS peak", 1_400.0, 10_000.0, 714, ""),
    ("server IOPS avg.", 1_050.0, 8_250.0, 786, ""),
)
