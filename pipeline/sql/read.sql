-- The data source's queries. They use only the versioned views of vela_read_v1.

-- name: topics
-- The requested topics. A partitioned topic has no messages of its own, so its partitions come in its place, or one row
-- with NULLs if it has none.
SELECT asked.name, asked.topic_id, asked.name, asked.partition
FROM vela_read_v1.topics asked WHERE asked.name = ANY(%(names)s) AND asked.partitions = 0
UNION ALL
SELECT asked.name, part.topic_id, part.name, part.partition
FROM vela_read_v1.topics asked LEFT JOIN vela_read_v1.topics part ON part.parent_id = asked.topic_id
WHERE asked.name = ANY(%(names)s) AND asked.partitions > 0

-- name: topic_names
-- Whole topics of a namespace, without partitions.
SELECT name FROM vela_read_v1.topics WHERE parent_id IS NULL AND starts_with(name, %s)

-- name: ledgers
-- The ledgers of some topics, oldest first; for each topic, from a given ledger on. One statement reads all of them in
-- one snapshot. Sealed ledgers store their totals; for an open one, one probe of the index finds the last entry.
SELECT l.topic_id, l.ledger_id,
       CASE l.state WHEN 'sealed' THEN l.entries - 1 ELSE coalesce(last.entry_id, -1) END,
       l.messages_before, l.bytes_before,
       CASE l.state WHEN 'sealed' THEN l.messages_before + l.messages
                    ELSE coalesce(last.cumulative_messages, l.messages_before) END,
       CASE l.state WHEN 'sealed' THEN l.bytes_before + l.size_bytes
                    ELSE coalesce(last.cumulative_bytes, l.bytes_before) END,
       CASE l.state WHEN 'sealed' THEN l.last_append_ms ELSE coalesce(last.append_ms, 0) END
FROM unnest(%(topic_ids)s::bigint[], %(from_ledgers)s::bigint[]) AS asked(topic_id, from_ledger)
JOIN vela_read_v1.ledgers l ON l.topic_id = asked.topic_id AND l.ledger_id >= asked.from_ledger
LEFT JOIN LATERAL (
    SELECT e.entry_id, e.cumulative_messages, e.cumulative_bytes, e.append_ms FROM vela_read_v1.entries e
    WHERE e.ledger_id = l.ledger_id ORDER BY e.entry_id DESC LIMIT 1
) last ON l.state = 'open'
ORDER BY l.topic_id, l.ledger_id

-- name: entry
-- One entry without its data. The totals are those of the topic, up to and including the entry.
SELECT e.append_ms, e.cumulative_messages, e.cumulative_bytes
FROM vela_read_v1.entries e WHERE e.ledger_id = %s AND e.entry_id = %s

-- name: cursors
-- Mark-delete positions of a subscription.
SELECT topic_id, mark_delete_ledger, mark_delete_entry
FROM vela_read_v1.subscriptions WHERE topic_id = ANY(%s) AND name = %s

-- name: entries
-- A window of bounded size: entry ids first..last, cut at a number of the topic's bytes, but never before the first.
-- The view covers all segments, and PostgreSQL plans each window again: in 1 ms with one segment, in 13 ms with 61.
COPY (
    SELECT e.entry_id, e.cumulative_bytes, e.append_ms, e.data
    FROM vela_read_v1.entries e
    WHERE e.ledger_id = %(ledger_id)s AND e.entry_id BETWEEN %(first)s AND %(last)s
      AND (e.entry_id = %(first)s OR e.cumulative_bytes <= %(limit_bytes)s)
    ORDER BY e.entry_id
) TO STDOUT (FORMAT binary)

-- name: file
-- The file of an offloaded ledger; NULL if it is not offloaded, no row if it was trimmed.
SELECT file_name FROM vela_read_v1.ledgers WHERE ledger_id = %s

-- name: is_trimmed
-- Whether a ledger's entries are gone. Its row is gone too, unless it is the topic's last ledger.
SELECT NOT EXISTS (
    SELECT FROM vela_read_v1.ledgers WHERE ledger_id = %s AND (state = 'open' OR entries > 0))

-- name: schemas
-- All versions of a topic's schema: payloads of each may be stored.
SELECT version, type, data, properties FROM vela_read_v1.schemas WHERE topic_name = %s
