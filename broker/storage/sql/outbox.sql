-- Messages that Django code publishes inside its own transaction. The owner moves visible rows into the log. The
-- statement that stores an entry also deletes its row here: `append_more` in entries.sql.

-- name: add
INSERT INTO vela_outbox (topic, key_hash, deliver_at_ms, data, error, created_at)
VALUES (%(topic)s, %(key_hash)s, %(deliver_at_ms)s, %(data)s, '', now())

-- name: wake
SELECT pg_notify('vela_outbox', '')

-- name: topics
-- The topics with rows to move: one probe of the index per topic, whatever its number of rows.
WITH RECURSIVE waiting AS (
    (SELECT topic FROM vela_outbox ORDER BY topic LIMIT 1)
    UNION ALL
    SELECT (SELECT x.topic FROM vela_outbox x WHERE x.topic > waiting.topic ORDER BY x.topic LIMIT 1)
    FROM waiting WHERE waiting.topic IS NOT NULL
)
SELECT topic FROM waiting WHERE topic IS NOT NULL

-- name: waiting
-- No high-water mark: a row with a smaller id may become visible later, when its transaction ends. Returns at least one
-- row, and more while their bytes are below a limit.
SELECT id, key_hash, deliver_at_ms, data FROM (
    SELECT n.*, sum(octet_length(n.data)) OVER (ORDER BY n.id) - octet_length(n.data) AS bytes_before
    FROM (
        SELECT id, key_hash, deliver_at_ms, data FROM vela_outbox
        WHERE topic = %(topic)s AND id <> ALL(%(taken)s::bigint[]) AND (retry_at IS NULL OR retry_at <= now())
        ORDER BY id LIMIT %(most)s
    ) n
) s WHERE s.bytes_before < %(more_bytes)s ORDER BY id

-- name: refuse
UPDATE vela_outbox SET error = %(error)s, retry_at = now() + make_interval(secs => %(retry_s)s)
WHERE id = ANY(%(ids)s::bigint[])
