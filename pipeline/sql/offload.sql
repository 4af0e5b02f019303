-- The queries of the job offload. The job never changes a ledger: the topic's owner does that.

-- name: topics
-- The topic, or the partitions of a partitioned topic.
SELECT p.topic_id FROM vela_read_v1.topics t
JOIN vela_read_v1.topics p ON p.parent_id = t.topic_id OR (p.topic_id = t.topic_id AND t.partitions = 0)
WHERE t.name = %s

-- name: exists
SELECT EXISTS (SELECT FROM vela_read_v1.topics WHERE name = %s)

-- name: abandon
-- Gives up the files that earlier runs left unfinished, so that the broker deletes them. A run that continues another
-- run has the same write id.
UPDATE vela_ledger_file f SET state = 'deleting'
WHERE f.topic_id = ANY(%(topic_ids)s) AND f.state = 'writing' AND (f.write_id = %(write_id)s OR (
    SELECT bool_and(r.ended_at IS NOT NULL) FROM vela_pipeline_run r WHERE r.write_id = f.write_id))

-- name: ledgers
-- Sealed ledgers in PostgreSQL without a file that waits for the broker, oldest first, each with the bytes of itself and
-- of the topic's later ledgers in this result.
SELECT l.topic_id, l.ledger_id, l.entries, l.messages, l.size_bytes, l.last_append_ms,
       (sum(l.size_bytes) OVER (PARTITION BY l.topic_id ORDER BY l.ledger_id DESC))::bigint
FROM vela_read_v1.ledgers l
WHERE l.topic_id = ANY(%s) AND l.state = 'sealed' AND l.entries > 0 AND l.file_name IS NULL
  AND NOT EXISTS (SELECT FROM vela_ledger_file f WHERE f.ledger_id = l.ledger_id AND f.state = 'written')
ORDER BY l.topic_id, l.ledger_id

-- name: entries
-- A window of bounded size, as in read.sql, with all columns.
COPY (
    SELECT e.entry_id, e.messages, e.flags, e.key_hash, e.deliver_at_ms, e.append_ms, e.cumulative_messages,
           e.cumulative_bytes, e.data
    FROM vela_read_v1.entries e
    WHERE e.ledger_id = %(ledger_id)s AND e.entry_id BETWEEN %(first)s AND %(last)s
      AND (e.entry_id = %(first)s OR e.cumulative_bytes <= %(limit_bytes)s)
    ORDER BY e.entry_id
) TO STDOUT (FORMAT binary)

-- name: is_in_rows
-- Whether a ledger's entries are still in PostgreSQL: retention has not trimmed them, and no other run has moved them.
SELECT EXISTS (SELECT FROM vela_read_v1.ledgers WHERE ledger_id = %s AND entries > 0 AND file_name IS NULL)

-- name: begin
INSERT INTO vela_ledger_file (name, topic_id, ledger_id, state, format_version, entries, messages, size_bytes, file_bytes,
                              checksum, write_id, created_at)
VALUES (%(name)s, %(topic_id)s, %(ledger_id)s, 'writing', 0, 0, 0, 0, 0, '', %(write_id)s, now())

-- name: written
-- Returns no row if the file was given up meanwhile, because this run seemed to be dead.
UPDATE vela_ledger_file SET state = 'written', format_version = %(format_version)s, entries = %(entries)s,
       messages = %(messages)s, size_bytes = %(size_bytes)s, file_bytes = %(file_bytes)s, checksum = %(checksum)s
WHERE name = %(name)s AND state = 'writing' RETURNING name

-- name: give_up
UPDATE vela_ledger_file SET state = 'deleting' WHERE name = %s AND state = 'writing'

-- name: ask
-- Asks the broker to look at files that wait. Without that, it looks at them later.
SELECT pg_notify('vela_lifetime', '')

-- name: attached
SELECT count(*) FILTER (WHERE state = 'attached'), count(*) FILTER (WHERE state = 'written')
FROM vela_ledger_file WHERE name = ANY(%s)
