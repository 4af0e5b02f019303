-- The data source's queries. They use only the versioned views of vela_read_v1.

-- name: topics
-- The topic itself, or its partitions if it is partitioned (its own row then has no messages).
SELECT t.topic_id, t.name, t.partition
FROM vela_read_v1.topics t JOIN vela_read_v1.topics asked ON asked.name = %s
WHERE CASE WHEN asked.partitions > 0 THEN t.parent_id = asked.topic_id ELSE t.topic_id = asked.topic_id END
ORDER BY t.partition

-- name: ledgers
-- Each ledger and its last committed entry, oldest first; one statement, so one snapshot. Sealed ledgers store their
-- total; for the open one the index gives the last entry in one probe.
SELECT l.ledger_id, CASE l.state WHEN 'sealed' THEN l.entries - 1 ELSE coalesce(last.entry_id, -1) END
FROM vela_read_v1.ledgers l
LEFT JOIN LATERAL (
    SELECT e.entry_id FROM vela_read_v1.entries e
    WHERE e.ledger_id = l.ledger_id ORDER BY e.entry_id DESC LIMIT 1
) last ON l.state = 'open'
WHERE l.topic_id = %s AND l.state IN ('open', 'sealed')
ORDER BY l.ledger_id

-- name: entries
-- A window of bounded size: entry ids first..last, cut where the bytes after the first entry exceed the budget.
SELECT e.entry_id, e.data
FROM vela_read_v1.entries e
WHERE e.ledger_id = %(ledger_id)s AND e.entry_id BETWEEN %(first)s AND %(last)s
  AND e.cumulative_bytes <= %(budget_bytes)s + (
    SELECT f.cumulative_bytes FROM vela_read_v1.entries f
    WHERE f.ledger_id = %(ledger_id)s AND f.entry_id = %(first)s)
ORDER BY e.entry_id

-- name: messages
-- Messages in a range of one ledger, by two probes of the cumulative count. No row if one end of the range is missing.
SELECT b.cumulative_messages - a.cumulative_messages + a.messages
FROM vela_read_v1.entries a JOIN vela_read_v1.entries b ON b.ledger_id = a.ledger_id
WHERE a.ledger_id = %(ledger_id)s AND a.entry_id = %(first)s AND b.entry_id = %(last)s
