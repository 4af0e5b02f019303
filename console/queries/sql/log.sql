-- Where a topic's log begins and ends, and single entries.

-- name: ledgers
SELECT id AS ledger_id, state, segment_id, opened_ms, entries_before, messages_before, bytes_before, entries, messages,
       size_bytes, first_append_ms, last_append_ms
FROM vela_ledger WHERE topic_id = %(topic_id)s ORDER BY id

-- name: last_ledgers
-- Of a topic, or of each of its partitions. A topic that was never loaded has no ledger, but may have subscriptions.
SELECT t.id AS topic_id, l.id AS ledger_id, l.state = 'open' AS is_open, l.segment_id,
       coalesce(l.messages_before + l.messages, 0) AS messages, coalesce(l.bytes_before + l.size_bytes, 0) AS size_bytes
FROM vela_topic t
LEFT JOIN LATERAL (SELECT max(m.id) AS id FROM vela_ledger m WHERE m.topic_id = t.id) last ON true
LEFT JOIN vela_ledger l ON l.id = last.id
WHERE t.id = %(topic_id)s OR t.parent_id = %(topic_id)s

-- The following queries name one segment's table ({entries}, {segment}) and are repeated for each segment they need: the
-- view over all of them cannot use a key's order, and with 64 segments it takes 30 ms to plan (136 ms for the end of a
-- ledger of 50,000 entries, against 0.2 ms). The join leaves out copies of entries in a segment that is not the ledger's.

-- name: end_of_open
-- The totals of an open ledger are those of its last entry.
SELECT z.ledger_id, z.entry_id, z.cumulative_messages, z.cumulative_bytes, z.append_ms AS last_append_ms,
       (SELECT a.append_ms FROM {entries} a WHERE a.ledger_id = z.ledger_id AND a.entry_id = 0) AS first_append_ms
FROM (
    SELECT e.ledger_id, e.entry_id, e.cumulative_messages, e.cumulative_bytes, e.append_ms
    FROM {entries} e WHERE e.ledger_id = %(ledger_id)s ORDER BY e.entry_id DESC LIMIT 1
) z

-- name: ends_of_open
-- The same for several ledgers.
SELECT p.ledger_id, z.cumulative_messages, z.cumulative_bytes
FROM unnest(%(ledgers)s::bigint[]) AS p(ledger_id)
JOIN vela_ledger l ON l.id = p.ledger_id AND l.segment_id = {segment}
CROSS JOIN LATERAL (
    SELECT e.cumulative_messages, e.cumulative_bytes
    FROM {entries} e WHERE e.ledger_id = p.ledger_id ORDER BY e.entry_id DESC LIMIT 1
) z

-- name: at
-- Entries at the given positions, by primary key.
SELECT e.ledger_id, e.entry_id, e.messages, e.append_ms, e.cumulative_messages
FROM unnest(%(ledgers)s::bigint[], %(entries)s::bigint[]) AS p(ledger_id, entry_id)
JOIN {entries} e ON e.ledger_id = p.ledger_id AND e.entry_id = p.entry_id
JOIN vela_ledger l ON l.id = e.ledger_id AND l.segment_id = {segment}

-- name: peek
-- Entries at the given positions with the first `most_bytes` of their data, so that a large payload costs no more.
SELECT e.ledger_id, e.entry_id, e.messages, e.append_ms, e.deliver_at_ms, octet_length(e.data) AS size_bytes,
       substring(e.data FROM 1 FOR %(most_bytes)s) AS data
FROM unnest(%(ledgers)s::bigint[], %(entries)s::bigint[]) AS p(ledger_id, entry_id)
JOIN {entries} e ON e.ledger_id = p.ledger_id AND e.entry_id = p.entry_id
JOIN vela_ledger l ON l.id = e.ledger_id AND l.segment_id = {segment}
