-- Decides which process may write: a session advisory lock shows that the owner is alive, and epochs fence earlier owners
-- (topics.sql).

-- name: try_lock
SELECT pg_try_advisory_lock(hashtextextended('vela broker ' || current_database(), 0))

-- name: unlock
-- Releases the lock at once: a closed connection's backend ends a little later, and until then the next broker would find
-- the lock taken.
SELECT pg_advisory_unlock(hashtextextended('vela broker ' || current_database(), 0))

-- name: end_own_holder
-- The server may not have noticed that the connection with the lock was lost. Ends the backend that has the lock if it
-- belongs to this process. No row = another process has the lock, or no process has it.
SELECT pg_terminate_backend(l.pid) FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.granted AND l.pid = ANY(%(pids)s::integer[])
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('vela broker ' || current_database(), 0)

-- name: name_broker
INSERT INTO vela_broker (id, host, pid, started_at, seen_at, stopped_at, http_url, pulsar_url)
VALUES (1, %(host)s, %(pid)s, now(), now(), NULL, %(http_url)s, %(pulsar_url)s)
ON CONFLICT (id) DO UPDATE SET host = EXCLUDED.host, pid = EXCLUDED.pid, started_at = now(), seen_at = now(),
    stopped_at = NULL, http_url = EXCLUDED.http_url, pulsar_url = EXCLUDED.pulsar_url

-- name: holder
SELECT host, pid, started_at FROM vela_broker WHERE id = 1

-- name: seen
-- Returns the seconds since the previous heartbeat. Losing a heartbeat in a crash does no harm, so
-- the commit does not wait for the disk.
UPDATE vela_broker b SET seen_at = now() FROM vela_broker before WHERE b.id = 1 AND before.id = b.id
RETURNING extract(epoch FROM b.seen_at - before.seen_at)::float8, set_config('synchronous_commit', 'off', true)

-- name: stopped
UPDATE vela_broker SET seen_at = now(), stopped_at = now() WHERE id = 1 AND pid = %s AND host = %s
