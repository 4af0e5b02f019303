-- Where a topic's log begins and ends, and single entries of it.

-- name: ledgers
-- Totals of an open ledger are those of its last entry (design 4).
SELECT l.id AS ledger_id, l.state, l.segment_id, l.opened_ms, l.entries_before, l.messages_before, l.bytes_before,
       CASE WHEN l.state = 'open' THEN coalesce(z.entry_id + 1, 0) ELSE l.entries END AS entries,
       CASE WHEN l.state = 'open' THEN coalesce(z.cumulative_messages - l.messages_before, 0) ELSE l.messages END
           AS messages,
       CASE WHEN l.state = 'open' THEN coalesce(z.cumulative_bytes - l.bytes_before, 0) ELSE l.size_bytes END
           AS size_bytes,
       CASE WHEN l.state = 'open' THEN coalesce(a.append_ms, 0) ELSE l.first_append_ms END AS first_append_ms,
       CASE WHEN l.state = 'open' THEN coalesce(z.append_ms, 0) ELSE l.last_append_ms END AS last_append_ms
FROM vela_ledger l
LEFT JOIN LATERAL (
    SELECT e.entry_id, e.cumulative_messages, e.cumulative_bytes, e.append_ms
    FROM vela_entry e WHERE e.ledger_id = l.id ORDER BY e.entry_id DESC LIMIT 1
) z ON l.state = 'open'
LEFT JOIN LATERAL (
    SELECT e.append_ms FROM vela_entry e WHERE e.ledger_id = l.id AND e.entry_id = 0 LIMIT 1
) a ON l.state = 'open'
WHERE l.topic_id = %(topic_id)s AND l.state <> 'gone' ORDER BY l.id

-- name: at
-- Chosen positions, by primary key.
SELECT p.ledger_id, p.entry_id, e.messages, e.append_ms, e.cumulative_messages
FROM unnest(%(ledgers)s::bigint[], %(entries)s::bigint[]) AS p(ledger_id, entry_id)
CROSS JOIN LATERAL (
    SELECT e.messages, e.append_ms, e.cumulative_messages
    FROM vela_entry e WHERE e.ledger_id = p.ledger_id AND e.entry_id = p.entry_id LIMIT 1
) e

-- name: peek
-- Chosen positions with the beginning of their bytes: a payload of any size costs at most `most_bytes` here.
SELECT p.ledger_id, p.entry_id, e.messages, e.append_ms, e.deliver_at_ms, e.size_bytes, e.data
FROM unnest(%(ledgers)s::bigint[], %(entries)s::bigint[]) AS p(ledger_id, entry_id)
CROSS JOIN LATERAL (
    SELECT e.messages, e.append_ms, e.deliver_at_ms, octet_length(e.data) AS size_bytes,
           substring(e.data FROM 1 FOR %(most_bytes)s) AS data
    FROM vela_entry e WHERE e.ledger_id = p.ledger_id AND e.entry_id = p.entry_id LIMIT 1
) e
ORDER BY p.ledger_id, p.entry_id
