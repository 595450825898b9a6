# SPDX-License-Identifier: PostgreSQL
"""Oracle's reports of an invented hour, in the layouts of several releases.

The hour is the same in all: 9,000 s of DB time, 360,000 transactions, 720,000 reads of one block in
5,400 s, 14,400 reads of 100 blocks in 720 s, commits for 900 s, processors for 1,800 s.
"""

HEAD_11 = """\
WORKLOAD REPOSITORY report for

DB Name         DB Id    Instance     Inst Num Startup Time    Release     RAC
------------ ----------- ------------ -------- --------------- ----------- ---
SHOP          1000000001 shop                1 01-Mar-21 08:00 11.2.0.3.0  NO

Host Name        Platform                         CPUs Cores Sockets Memory(GB)
---------------- -------------------------------- ---- ----- ------- ----------
dbhost           Linux x86 64-bit                   16     8       2      64.00

              Snap Id      Snap Time      Sessions Curs/Sess
            --------- ------------------- -------- ---------
Begin Snap:       100 01-Mar-21 10:00:00       120       2.0
  End Snap:       101 01-Mar-21 11:00:00       120       2.0
   Elapsed:               60.00 (mins)
   DB Time:              150.00 (mins)
"""

CACHE_SIZES = """
Cache Sizes                       Begin        End
~~~~~~~~~~~                  ---------- ----------
               Buffer Cache:     4,096M     4,096M  Std Block Size:         8K
           Shared Pool Size:     1,024M     1,024M      Log Buffer:    16,384K
"""

PROFILE = """
Load Profile              Per Second    Per Transaction   Per Exec   Per Call
~~~~~~~~~~~~         ---------------    --------------- ---------- ----------
      DB Time(s):                2.5                0.0       0.00       0.00
       DB CPU(s):                0.5                0.0       0.00       0.00
       Redo size:          400,000.0            4,000.0
  Physical reads:              600.0                6.0
 Physical writes:              120.0                1.2
    Transactions:              100.0
"""

TOP_11 = """
Top 5 Timed Foreground Events
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
                                                           Avg
                                                          wait   % DB
Event                                 Waits     Time(s)   (ms)   time Wait Class
------------------------------ ------------ ----------- ------ ------ ----------
db file sequential read             720,000       5,400      8   60.0 User I/O
DB CPU                                            1,800          20.0
log file sync                       360,000         900      3   10.0 Commit
direct path read                     14,400         720     50    8.0 User I/O
buffer busy waits                    36,000         180      5    2.0 Concurrenc
"""

CLASSES_11 = """
Foreground Wait Class                       DB/Inst: SHOP/shop  Snaps: 100-101
-> s  - second, ms - millisecond -    1000th of a second
-> Captured Time accounts for        100.0%  of Total DB time       9,000.00 (s)

                                                                  Avg
                                      %Time       Total Wait     wait
Wait Class                      Waits -outs         Time (s)     (ms)  %DB time
-------------------- ---------------- ----- ---------------- -------- ---------
User I/O                      734,400     0            6,120        8      68.0
DB CPU                                                 1,800               20.0
Commit                        360,000     0              900        3      10.0
Concurrency                    36,000     0              180        5       2.0
                          ------------------------------------------------------
"""

EVENTS_11 = """
Foreground Wait Events                      DB/Inst: SHOP/shop  Snaps: 100-101
-> Only events with Total Wait Time (s) >= .001 are shown

                                                             Avg
                                        %Time Total Wait    wait    Waits   % DB
Event                             Waits -outs   Time (s)    (ms)     /txn   time
-------------------------- ------------ ----- ---------- ------- -------- ------
db file sequential read         720,000     0      5,400       8      2.0   60.0
log file sync                   360,000     0        900       3      1.0   10.0
direct path read                 14,400     0        720      50      0.0    8.0
buffer busy waits                36,000     0        180       5      0.1    2.0
SQL*Net message from clien      900,000     0    400,000     444      2.5
                          ------------------------------------------------------

Background Wait Events                      DB/Inst: SHOP/shop  Snaps: 100-101
-> ordered by wait time desc, waits desc (idle events last)

                                                             Avg
                                        %Time Total Wait    wait    Waits   % bg
Event                             Waits -outs   Time (s)    (ms)     /txn   time
-------------------------- ------------ ----- ---------- ------- -------- ------
log file parallel write         300,000     0        600       2      0.8   60.0
db file parallel write          100,000     0        300       3      0.3   30.0
db file sequential read           1,000     0         10      10      0.0    1.0
                          ------------------------------------------------------
"""

HISTOGRAM_11 = """
Wait Event Histogram                        DB/Inst: SHOP/shop  Snaps: 100-101
-> Units for Total Waits column: K is 1000, M is 1000000, G is 1000000000
-> Ordered by Event (idle events last)

                                                    % of Waits
                                 -----------------------------------------------
                           Total
Event                      Waits  <1ms  <2ms  <4ms  <8ms <16ms <32ms  <=1s   >1s
-------------------------- ----- ----- ----- ----- ----- ----- ----- ----- -----
db file sequential read     720K  10.0  10.0  20.0  30.0  20.0  10.0
direct path read temp       9120  50.0  50.0
direct path write temp      4012 100.0
                          ------------------------------------------------------
"""

ADVISORY_11 = """
Buffer Pool Advisory                              DB/Inst: SHOP/shop  Snap: 101
-> Only rows with estimated physical reads >0 are displayed
-> ordered by Block Size, Buffers For Estimate

                                    Est
                                   Phys      Estimated                  Est
    Size for   Size      Buffers   Read     Phys Reads     Est Phys %DBtime
P    Est (M) Factor  (thousands) Factor    (thousands)    Read Time for Rds
--- -------- ------ ------------ ------ -------------- ------------ -------
D      2,048     .5          252    2.0          4,000            1    99.0
D      4,096    1.0          504    1.0          2,000            1    60.0
D      6,144    1.5          756     .6          1,200            1    40.0
D      8,192    2.0        1,008     .4            800            1    30.0
                          ------------------------------------------------------
"""

SEGMENTS_11 = """
Segments by Physical Reads                  DB/Inst: SHOP/shop  Snaps: 100-101
-> Total Physical Reads:       2,160,000
-> Captured Segments account for   55.0% of Total

           Tablespace                      Subobject  Obj.      Physical
Owner         Name    Object Name            Name     Type         Reads  %Total
---------- ---------- -------------------- ---------- ----- ------------ -------
SHOP       DATA       ORDERS                          TABLE      432,000   20.00
SHOP       DATA       ORDERS               2021       TABLE      324,000   15.00
SHOP       INDX       ORDERS_PK                       INDEX      216,000   10.00
SHOP       DATA       STOCK_LOB                       LOB        108,000    5.00
SYS        SYSTEM     OBJ$                            TABLE      108,000    5.00
                          ------------------------------------------------------
"""

REPORT_11 = "".join(
    (
        HEAD_11,
        CACHE_SIZES,
        PROFILE,
        TOP_11,
        CLASSES_11,
        EVENTS_11,
        HISTOGRAM_11,
        ADVISORY_11,
        SEGMENTS_11,
    )
)

#: From 12.2 on: rows of two lines, averages with a unit, sizes of requests.
SEGMENTS_19 = """
Segments by Physical Reads                DB/Inst: SHOP/shop  Snaps: 100-101
-> Total Physical Reads:       2,160,000
-> Captured Segments account for   30.0% of Total
-> When ** MISSING ** occurs, some of the object attributes may not be available

                     Tablespace
Owner                   Name
-------------------- ----------
                     Subobject  Obj.                            Physical
Object Name            Name     Type        Obj#   Dataobj#        Reads  %Total
-------------------- ---------- ----- ---------- ---------- ------------ -------
SHOP                 DATA
ORDERS                          TABLE     142581     142581      432,000   20.00
   PDB: PDB1
SHOP                 INDX
ORDERS_PK                       INDEX     105076     105076      216,000   10.00
   PDB: PDB1
                          ------------------------------------------------------
"""

REPORT_10 = """\
WORKLOAD REPOSITORY report for

DB Name         DB Id    Instance     Inst Num Release     RAC Host
------------ ----------- ------------ -------- ----------- --- ------------
SHOP          1000000001 shop                1 10.2.0.4.0  NO  dbhost

              Snap Id      Snap Time      Sessions Curs/Sess
            --------- ------------------- -------- ---------
Begin Snap:       100 01-Mar-08 10:00:00       120       2.0
  End Snap:       101 01-Mar-08 11:00:00       120       2.0
   Elapsed:               60.00 (mins)
   DB Time:              150.00 (mins)

Cache Sizes
~~~~~~~~~~~                       Begin        End
                             ---------- ----------
               Buffer Cache:     4,096M     4,096M  Std Block Size:         8K
           Shared Pool Size:     1,024M     1,024M      Log Buffer:    14,336K

Load Profile
~~~~~~~~~~~~                            Per Second       Per Transaction
                                   ---------------       ---------------
                  Redo size:            400,000.00              4,000.00
             Physical reads:                600.00                  6.00
            Physical writes:                120.00                  1.20
               Transactions:                100.00

Top 5 Timed Events                                         Avg %Total
~~~~~~~~~~~~~~~~~~                                        wait   Call
Event                                 Waits    Time (s)   (ms)   Time Wait Class
------------------------------ ------------ ----------- ------ ------ ----------
db file sequential read             721,000       5,410      8   60.1   User I/O
CPU time                                          1,800          20.0
log file sync                       360,000         900      3   10.0     Commit
direct path read                     14,400         720     50    8.0   User I/O
log file parallel write             300,000         600      2    6.7 System I/O
          -------------------------------------------------------------

Wait Events                                  DB/Inst: SHOP/shop  Snaps: 100-101
-> s  - second
-> ordered by wait time desc, waits desc (idle events last)

                                                                   Avg
                                             %Time  Total Wait    wait     Waits
Event                                 Waits  -outs    Time (s)    (ms)      /txn
---------------------------- -------------- ------ ----------- ------- ---------
db file sequential read             721,000     .0       5,410       8       2.0
log file sync                       360,000     .0         900       3       1.0
direct path read                     14,400     .0         720      50       0.0
log file parallel write             300,000     .0         600       2       0.8
          -------------------------------------------------------------

Background Wait Events                       DB/Inst: SHOP/shop  Snaps: 100-101
-> ordered by wait time desc, waits desc (idle events last)

                                                                   Avg
                                             %Time  Total Wait    wait     Waits
Event                                 Waits  -outs    Time (s)    (ms)      /txn
---------------------------- -------------- ------ ----------- ------- ---------
log file parallel write             300,000     .0         600       2       0.8
db file sequential read               1,000     .0          10      10       0.0
          -------------------------------------------------------------

Operating System Statistics                  DB/Inst: SHOP/shop  Snaps: 100-101

Statistic                                       Total
-------------------------------- --------------------
BUSY_TIME                                     200,000
NUM_CPUS                                           16
NUM_CPU_CORES                                       8
          -------------------------------------------------------------
"""

STATSPACK = """\
STATSPACK report for

Database    DB Id    Instance     Inst Num  Startup Time   Release     RAC
~~~~~~~~ ----------- ------------ -------- --------------- ----------- ---
          1000000001 shop                1 01-Mar-21 08:00 12.1.0.2.0  NO

Snapshot       Snap Id     Snap Time      Sessions Curs/Sess Comment
~~~~~~~~    ---------- ------------------ -------- --------- ------------------
Begin Snap:        100 01-Mar-21 10:00:00      120       2.0
  End Snap:        101 01-Mar-21 11:00:00      120       2.0
   Elapsed:      60.00 (mins) Av Act Sess:       2.5
   DB time:     150.00 (mins)      DB CPU:      30.00 (mins)

Cache Sizes            Begin        End
~~~~~~~~~~~       ---------- ----------
    Buffer Cache:     4,096M              Std Block Size:         8K
     Shared Pool:     1,024M                  Log Buffer:    16,384K

Load Profile              Per Second    Per Transaction    Per Exec    Per Call
~~~~~~~~~~~~      ------------------  ----------------- ----------- -----------
      DB time(s):                2.5                0.0        0.00        0.00
       DB CPU(s):                0.5                0.0        0.00        0.00
       Redo size:          400,000.0            4,000.0
  Physical reads:              600.0                6.0
 Physical writes:              120.0                1.2
    Transactions:              100.0

Top 5 Timed Events                                                    Avg %Total
~~~~~~~~~~~~~~~~~~                                                   wait   Call
Event                                            Waits    Time (s)   (ms)   Time
----------------------------------------- ------------ ----------- ------ ------
LGWR worker group idle                           5,000       6,900   1380   40.0
db file sequential read                        721,000       5,410      8   31.4
lreg timer                                       1,200       3,600   3000   20.9
CPU time                                                     1,900          11.0
log file parallel write                        300,000         600      2    3.5
          -------------------------------------------------------------
Host CPU  (CPUs: 16  Cores: 8  Sockets: 2)
~~~~~~~~              Load Average
                      Begin     End      User  System    Idle     WIO     WCPU
                    ------- -------   ------- ------- ------- ------- --------
                       2.00    2.00      3.00    1.00   96.00    0.38

Time Model System Stats  DB/Inst: SHOP/shop  Snaps: 100-101
-> Ordered by % of DB time desc, Statistic name

Statistic                                       Time (s) % DB time
----------------------------------- -------------------- ---------
DB CPU                                           1,800.0      20.0
DB time                                          9,000.0
          -------------------------------------------------------------
Foreground Wait Events  DB/Inst: SHOP/shop  Snaps: 100-101
-> Only events with Total Wait Time (s) >= .001 are shown

                                                             Avg          %Total
                                          %Tim Total Wait   wait    Waits   Call
Event                               Waits  out   Time (s)   (ms)     /txn   Time
---------------------------- ------------ ---- ---------- ------ -------- ------
db file sequential read           720,000    0      5,400      8      2.0   31.3
log file sync                     360,000    0        900      3      1.0    5.2
direct path read                   14,400    0        720     50      0.0    4.2
SQL*Net message from client       900,000    0    400,000    444      2.5
          -------------------------------------------------------------

Background Wait Events  DB/Inst: SHOP/shop  Snaps: 100-101
-> Only events with Total Wait Time (s) >= .001 are shown

                                                             Avg          %Total
                                          %Tim Total Wait   wait    Waits   Call
Event                               Waits  out   Time (s)   (ms)     /txn   Time
---------------------------- ------------ ---- ---------- ------ -------- ------
LGWR worker group idle              5,000    0      6,900   1380      0.0   40.0
lreg timer                          1,200  100      3,600   3000      0.0   20.9
log file parallel write           300,000    0        600      2      0.8    3.5
db file sequential read             1,000    0         10     10      0.0     .1
          -------------------------------------------------------------
"""

HTML_19 = """
<html lang="en"><head><title>AWR Report for DB: SHOP, Inst: shop1, Snaps: 100-101</title></head>
<body class="awr"><h1 class="awr">WORKLOAD REPOSITORY report for</h1>
<table border="0" summary="This table displays host information">
<tr><th>Host Name</th><th>Platform</th><th>CPUs</th><th>Cores</th><th>Sockets</th></tr>
<tr><td>dbhost</td><td>Linux x86 64-bit</td><td>  16</td><td>   8</td><td>   2</td></tr></table>
<table border="0" summary="This table displays snapshot information">
<tr><th></th><th>Snap Id</th><th>Snap Time</th></tr>
<tr><td>Elapsed:</td><td>&#160;</td><td>              60.00 (mins)</td></tr>
<tr><td>DB Time:</td><td>&#160;</td><td>             150.00 (mins)</td></tr></table>
<p />Load Profile<p />
<table border="0" summary="This table displays load profile">
<tr><th></th><th>Per Second</th><th>Per Transaction</th></tr>
<tr><td>Redo size (bytes):</td><td>         400,000.0</td><td>             4,000.0</td></tr>
<tr><td>Physical read (blocks):</td><td>             600.0</td><td>                 6.0</td></tr>
<tr><td>Physical write (blocks):</td><td>             120.0</td><td>                 1.2</td></tr>
<tr><td>Write IO requests:</td><td>             100.0</td><td>                 1.0</td></tr>
<tr><td>Transactions:</td><td>             100.0</td><td>&#160;</td></tr></table>
<p />Top 10 Foreground Events by Total Wait Time<p />
<table border="0" summary="This table displays top 10 wait events by total wait time">
<tr><th>Event</th><th>Waits</th><th>Total Wait Time (sec)</th><th>Avg Wait</th>
<th>% DB time</th><th>Wait Class</th></tr>
<tr><td>cell single block physical read</td><td>720,000</td><td>5400</td><td>7.50ms</td>
<td>60.0</td><td>User I/O</td></tr>
<tr><td>DB CPU</td><td>&#160;</td><td>1800</td><td>&#160;</td><td>20.0</td><td>&#160;</td></tr>
<tr><td>log file sync</td><td>360,000</td><td>900</td><td>2.50ms</td><td>10.0</td>
<td>Commit</td></tr>
<tr><td>direct path read</td><td>14,400</td><td>720</td><td>50.00ms</td><td>8.0</td>
<td>User I/O</td></tr></table>
<p />Cache Sizes<p />
<table border="0" summary="This table displays cache sizes and other statistics">
<tr><th></th><th>Begin</th><th>End</th><th></th><th></th></tr>
<tr><td>Buffer Cache:</td><td>     4,096M</td><td>     4,096M</td><td>Std Block Size:</td>
<td>         8K</td></tr></table>
<h3 class="awr">Buffer Pool Advisory</h3>
<table border="0" summary="This table displays MTTR advisory. It displays size for estimate">
<tr><th>P</th><th>Size for Est (M)</th><th>Size Factor</th><th>Buffers (thousands)</th>
<th>Est Phys Read Factor</th><th>Estimated Phys Reads (thousands)</th></tr>
<tr><td>D</td><td>4,096</td><td>1.00</td><td>504</td><td>1.00</td><td>2,000</td></tr>
<tr><td>D</td><td>6,144</td><td>1.50</td><td>756</td><td>0.60</td><td>1,200</td></tr>
<tr><td>D</td><td>8,192</td><td>2.00</td><td>1,008</td><td>0.40</td><td>800</td></tr></table>
<h3 class="awr">Segments by Physical Reads</h3>
<ul><li class="awr"> Total Physical Reads: 2,160,000 </li></ul>
<table border="0" summary="This table displays top segments by physical reads.">
<tr><th>Owner</th><th>Tablespace Name</th><th>Object Name</th><th>Subobject   Name</th>
<th>Obj. Type</th><th>Obj#</th><th>Physical Reads</th><th>%Total</th></tr>
<tr><td>SHOP</td><td>DATA</td><td>ORDERS</td><td>&#160;</td><td>TABLE</td><td>1</td>
<td>432,000</td><td>20.00</td></tr>
<tr><td>SHOP</td><td>INDX</td><td>ORDERS_PK</td><td>&#160;</td><td>INDEX</td><td>2</td>
<td>216,000</td><td>10.00</td></tr></table>
</body></html>
"""
