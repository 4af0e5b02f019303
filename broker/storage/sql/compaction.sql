-- Compacted topics. The kept entries are copies, because the log may be trimmed below the horizon. Each run writes its
-- own generation, which readers do not see before `publish` makes it the current generation. The next run deletes the
-- entries that a stopped run left.

-- name: load
-- A run that is under way when a topic is loaded belongs to a broker that has stopped.
WITH stopped AS (
    UPDATE vela_compaction SET state = 'ERROR', failed_at = now(), last_error = 'the broker stopped during the compaction'
    WHERE topic_id = %(topic_id)s AND state = 'RUNNING'
)
SELECT horizon_ledger, horizon_entry, horizon_messages, horizon_bytes, generation, attempt, kept_entries, kept_messages,
       kept_bytes, failures, (extract(epoch FROM retry_at) * 1000)::bigint
FROM vela_compaction WHERE topic_id = %(topic_id)s

-- name: begin
-- The first run stores a horizon before the first stored entry. After that, no entry is trimmed before it is compacted.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
)
INSERT INTO vela_compaction (topic_id, horizon_ledger, horizon_entry, horizon_messages, horizon_bytes, generation, attempt,
                             state, last_error, kept_entries, kept_messages, kept_bytes, removed_messages, duration_ms,
                             failures, started_at)
SELECT topic_id, %(ledger_id)s, %(entry_id)s, %(messages)s, %(size_bytes)s, 0, 1, 'RUNNING', '', 0, 0, 0, 0, 0, 0, now()
FROM o
ON CONFLICT (topic_id) DO UPDATE SET state = 'RUNNING', started_at = now(), last_error = '',
    attempt = vela_compaction.attempt + 1
RETURNING attempt

-- name: add
-- Safe to repeat. No row = fenced.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %b AND owner_epoch = %b FOR SHARE
), i AS (
    INSERT INTO vela_compacted_entry (topic_id, generation, ledger_id, entry_id, messages, flags, key_hash, append_ms,
                                      deliver_at_ms, cumulative_messages, cumulative_bytes, data)
    SELECT o.topic_id, %b::bigint, e.ledger_id, e.entry_id, e.messages, e.flags, e.key_hash, e.append_ms, e.deliver_at_ms,
           e.cumulative_messages, e.cumulative_bytes, e.data
    FROM o, unnest(%b::bigint[], %b::bigint[], %b::integer[], %b::smallint[], %b::integer[], %b::bigint[], %b::bigint[],
                   %b::bigint[], %b::bigint[], %b::bytea[])
         AS e(ledger_id, entry_id, messages, flags, key_hash, append_ms, deliver_at_ms, cumulative_messages,
              cumulative_bytes, data)
    ON CONFLICT DO NOTHING
)
SELECT topic_id FROM o

-- name: publish
-- After this statement, readers get the new generation. Returns false if the topic was emptied, or its compaction was
-- deleted, during the run. Safe to repeat.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), published AS (
    UPDATE vela_compaction c SET state = 'SUCCESS', generation = c.attempt, succeeded_at = now(), last_error = '',
           failures = 0, retry_at = NULL,
           horizon_ledger = %(ledger_id)s, horizon_entry = %(entry_id)s, horizon_messages = %(messages)s,
           horizon_bytes = %(size_bytes)s, kept_entries = %(kept_entries)s, kept_messages = %(kept_messages)s,
           kept_bytes = %(kept_bytes)s, removed_messages = %(removed_messages)s, duration_ms = %(duration_ms)s
    FROM o WHERE c.topic_id = o.topic_id AND c.attempt = %(attempt)s
    RETURNING c.topic_id
)
SELECT EXISTS (SELECT FROM published) FROM o

-- name: fail
-- Safe to repeat: the second time the run is not RUNNING any more.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), failed AS (
    UPDATE vela_compaction c SET state = 'ERROR', failed_at = now(), last_error = %(error)s, failures = %(failures)s,
           retry_at = to_timestamp(%(retry_ms)s / 1000.0)
    FROM o WHERE c.topic_id = o.topic_id AND c.attempt = %(attempt)s AND c.state = 'RUNNING'
)
SELECT topic_id FROM o

-- name: empty
-- Moves the horizon to a position. After that, readers get no entry up to this position. A run under way can no longer
-- publish, because it is not the latest attempt.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), emptied AS (
    UPDATE vela_compaction c SET generation = %(attempt)s, attempt = %(attempt)s, horizon_ledger = %(ledger_id)s,
           horizon_entry = %(entry_id)s, horizon_messages = %(messages)s, horizon_bytes = %(size_bytes)s,
           state = 'SUCCESS', last_error = '', kept_entries = 0, kept_messages = 0, kept_bytes = 0
    FROM o WHERE c.topic_id = o.topic_id
)
SELECT topic_id FROM o

-- name: forget
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), gone AS (
    DELETE FROM vela_compaction c USING o WHERE c.topic_id = o.topic_id
)
SELECT topic_id FROM o

-- name: sweep
-- Deletes some entries of all generations except one.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), gone AS (
    DELETE FROM vela_compacted_entry WHERE ctid = ANY(ARRAY(
        SELECT e.ctid FROM vela_compacted_entry e JOIN o USING (topic_id) WHERE e.generation <> %(generation)s
        LIMIT %(limit)s))
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone) FROM o

-- name: read
-- Returns the horizon and the next entries of the current generation: at least one entry, and more while their bytes are
-- below a limit. One statement returns both, so that they belong to the same generation.
SELECT c.horizon_ledger, c.horizon_entry, e.ledger_id, e.entry_id, e.messages, e.flags, e.key_hash, e.deliver_at_ms,
       e.append_ms, e.cumulative_messages, e.cumulative_bytes, e.data
FROM vela_compaction c LEFT JOIN LATERAL (
    SELECT * FROM (
        SELECT n.*, sum(octet_length(n.data)) OVER (ORDER BY n.ledger_id, n.entry_id) - octet_length(n.data) AS bytes_before
        FROM (
            SELECT * FROM vela_compacted_entry
            WHERE topic_id = c.topic_id AND generation = c.generation AND (ledger_id, entry_id) >= (%b::bigint, %b::bigint)
            ORDER BY ledger_id, entry_id LIMIT %b::bigint
        ) n
    ) s WHERE s.bytes_before < %b::bigint
) e ON true
WHERE c.topic_id = %b ORDER BY e.ledger_id, e.entry_id

-- name: last
SELECT e.ledger_id, e.entry_id, e.messages, e.flags, e.key_hash, e.deliver_at_ms, e.append_ms, e.cumulative_messages,
       e.cumulative_bytes, e.data
FROM vela_compaction c JOIN vela_compacted_entry e ON e.topic_id = c.topic_id AND e.generation = c.generation
WHERE c.topic_id = %b ORDER BY e.ledger_id DESC, e.entry_id DESC LIMIT 1

-- name: first_since
-- Entries are stored in the order of their append times, so the first match in key order is the earliest.
SELECT e.ledger_id, e.entry_id
FROM vela_compaction c JOIN vela_compacted_entry e ON e.topic_id = c.topic_id AND e.generation = c.generation
WHERE c.topic_id = %b AND e.append_ms >= %b ORDER BY e.ledger_id, e.entry_id LIMIT 1
