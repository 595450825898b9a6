-- What the functions give, and what they refuse.
CREATE EXTENSION pgflash;

-- The wait class of an event: of a client, of another process, of no wait at all.
SELECT pgflash_wait_class('client backend', 'IO', 'DataFileRead') AS read,
       pgflash_wait_class(NULL, 'IO', 'DataFileRead') AS untyped,
       pgflash_wait_class('checkpointer', 'IO', 'DataFileWrite') AS write,
       pgflash_wait_class('client backend', 'Client', 'ClientRead') AS idle,
       pgflash_wait_class('client backend', NULL, NULL) AS none;

-- Each event that the server knows is of the class that the function says.
SELECT count(*) > 100 AS many,
       bool_and(wait_class = pgflash_wait_class(NULL, wait_event_type, wait_event)) AS same
  FROM pgflash_wait_events;

-- Drive writes per day: of a capacity, or of none.
SELECT pgflash_drive_writes_per_day(0);
SELECT pgflash_drive_writes_per_day(-1);
SELECT pgflash_drive_writes_per_day(NULL) IS NULL AS of_nothing;
SELECT coalesce(pgflash_drive_writes_per_day(1000000000000) >= 0, true) AS of_a_terabyte;

-- The modes have names.
SELECT pgflash_cache_set_mode('sideways');
SELECT pgflash_cache_set_mode('');
SELECT pgflash_cache_set_mode(NULL) IS NULL AS unchanged;

-- An empty cache holds nothing that could differ from its file.
SELECT pgflash_cache_clear();
SELECT mismatched FROM pgflash_cache_verify();

-- Snapshots count on, each with its sections; only those from before a time are dropped.
SELECT pgflash_snapshot() AS first \gset
SELECT pgflash_snapshot() AS second \gset
SELECT :second > :first AS later;
SELECT snapshot_id = :first AS first, count(*) > 1 AS sections
  FROM pgflash_snapshot_sections WHERE snapshot_id IN (:first, :second) GROUP BY snapshot_id ORDER BY snapshot_id;
SELECT pgflash_snapshot_drop('-infinity');
SELECT pgflash_snapshot_drop(taken_at) FROM pgflash_snapshots WHERE snapshot_id = :second;
SELECT snapshot_id = :second AS second FROM pgflash_snapshots;
SELECT pgflash_snapshot_drop(NULL) IS NULL AS kept;

DROP EXTENSION pgflash;
