-- SPDX-License-Identifier: PostgreSQL
--
-- What pgbench's own scripts must leave behind, whichever of them ran.

-- condition 1: the accounts' balances are what the history says
SELECT coalesce((SELECT sum(abalance) FROM pgbench.pgbench_accounts), 0)
       IS DISTINCT FROM coalesce((SELECT sum(delta) FROM pgbench.pgbench_history), 0)::bigint
       AS broken;

-- condition 2: tellers and branches have the same balance
SELECT (SELECT sum(tbalance) FROM pgbench.pgbench_tellers)
       IS DISTINCT FROM (SELECT sum(bbalance) FROM pgbench.pgbench_branches) AS broken;

-- condition 3: no account, teller or branch is lost
SELECT abs(accounts - 100000 * branches) + abs(tellers - 10 * branches)
  FROM (SELECT (SELECT count(*) FROM pgbench.pgbench_accounts) AS accounts,
               (SELECT count(*) FROM pgbench.pgbench_tellers) AS tellers,
               (SELECT count(*) FROM pgbench.pgbench_branches) AS branches) AS counted;
