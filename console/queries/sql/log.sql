-- The ledgers of topics' logs, the ends of the logs, and their entries.

-- name: ledgers
-- The ledgers of one topic, or of several.
SELECT topic_id, id AS ledger_id, state, segment_id, file_name, opened_ms, entries_before, messages_before, bytes_before, entries, messages,
       size_bytes, first_append_ms, last_append_ms
FROM vela_ledger WHERE topic_id = ANY(%(topics)s::bigint[]) ORDER BY topic_id, id

-- name: tables
-- The given segments whose table exists.
SELECT s.id AS segment_id FROM unnest(%(segments)s::bigint[]) AS s(id) WHERE to_regclass('vela_entry_' || s.id) IS NOT NULL
ORDER BY s.id

-- name: of_file
-- The ledger that is read from a file, if one still is.
SELECT id AS ledger_id FROM vela_ledger WHERE file_name = %(file_name)s

-- name: last_ledgers
-- The last ledger of a topic, or of each of its partitions. A topic that was never loaded has no ledger, but may have
-- subscriptions.
SELECT t.id AS topic_id, l.id AS ledger_id, l.state = 'open' AS is_open, l.segment_id,
       coalesce(l.messages_before + l.messages, 0) AS messages, coalesce(l.bytes_before + l.size_bytes, 0) AS size_bytes
FROM vela_topic t
LEFT JOIN LATERAL (SELECT max(m.id) AS id FROM vela_ledger m WHERE m.topic_id = t.id) last ON true
LEFT JOIN vela_ledger l ON l.id = last.id
WHERE t.id = %(topic_id)s OR t.parent_id = %(topic_id)s

-- Each of the following queries reads the tables of one segment ({entries}, {rest}, {segment}) and is repeated for each
-- segment that is needed. The view over all segments cannot use the order of the primary key, and with 64 segments
-- PostgreSQL takes 30 ms to plan a query of the view. To find the end of a ledger of 50,000 entries takes 136 ms in the
-- view, and 0.2 ms here. The join leaves out copies of entries in a segment that is not the ledger's.

-- name: ends_of_open
-- The totals of an open ledger are those of its last entry.
SELECT p.ledger_id, z.entry_id, z.cumulative_messages, z.cumulative_bytes, z.append_ms AS last_append_ms,
       (SELECT a.append_ms FROM {entries} a WHERE a.ledger_id = p.ledger_id AND a.entry_id = 0) AS first_append_ms
FROM unnest(%(ledgers)s::bigint[]) AS p(ledger_id)
JOIN vela_ledger l ON l.id = p.ledger_id AND l.segment_id = {segment}
CROSS JOIN LATERAL (
    SELECT e.entry_id, e.cumulative_messages, e.cumulative_bytes, e.append_ms
    FROM {entries} e WHERE e.ledger_id = p.ledger_id ORDER BY e.entry_id DESC LIMIT 1
) z

-- name: at
-- Entries at the given positions, by primary key.
SELECT e.ledger_id, e.entry_id, e.messages, e.append_ms, e.cumulative_messages
FROM unnest(%(ledgers)s::bigint[], %(entries)s::bigint[]) AS p(ledger_id, entry_id)
JOIN {entries} e ON e.ledger_id = p.ledger_id AND e.entry_id = p.entry_id
JOIN vela_ledger l ON l.id = e.ledger_id AND l.segment_id = {segment}

-- name: peek
-- Entries at the given positions with the first `most_bytes` of their data: the rest of a large payload is not read. An
-- entry's pieces in its table `rest` have 8,064 bytes each, except the first two, which may be shorter.
SELECT e.ledger_id, e.entry_id, e.messages, e.append_ms, e.deliver_at_ms,
       octet_length(e.data) + e.rest_bytes AS size_bytes,
       substring(CASE e.rest_bytes WHEN 0 THEN e.data ELSE e.data || coalesce((SELECT string_agg(p.data, '') FROM (
           SELECT r.data FROM {rest} r WHERE r.ledger_id = e.ledger_id AND r.entry_id = e.entry_id
           AND r.piece <= 2 + %(most_bytes)s / 8064 ORDER BY r.piece
       ) p), '') END FROM 1 FOR %(most_bytes)s) AS data
FROM unnest(%(ledgers)s::bigint[], %(entries)s::bigint[]) AS p(ledger_id, entry_id)
JOIN {entries} e ON e.ledger_id = p.ledger_id AND e.entry_id = p.entry_id
JOIN vela_ledger l ON l.id = e.ledger_id AND l.segment_id = {segment}

-- name: first_after
-- The first entry of each ledger that was stored at or after a time. Append times never go back within a ledger.
SELECT p.ledger_id, z.entry_id
FROM unnest(%(ledgers)s::bigint[], %(times_ms)s::bigint[]) AS p(ledger_id, time_ms)
JOIN vela_ledger l ON l.id = p.ledger_id AND l.segment_id = {segment}
CROSS JOIN LATERAL (
    SELECT e.entry_id FROM {entries} e WHERE e.ledger_id = p.ledger_id AND e.append_ms >= p.time_ms
    ORDER BY e.entry_id LIMIT 1
) z

-- name: piece
-- The first entries of some ranges, at most `limit` and about `piece_bytes`, in log order or (`sign` -1) in reverse.
-- With `slots`, entries whose key hash shows that they have another key are left out. The hash of a batch (flag 1) is
-- that of one member, and the hash of an entry with an ordering key (flag 32) is not that of its key: these stay. The
-- far end of each range stays too: a piece without it tells the reader that the range is not stored there any more.
-- `picked` chooses entries without their data, because sorting the data of a whole range costs more than reading it.
WITH picked AS (
    SELECT x.ledger_id, x.entry_id, x.size_bytes,
           sum(x.size_bytes) OVER (ORDER BY x.ledger_id * %(sign)s, x.entry_id * %(sign)s) - x.size_bytes AS before_bytes
    FROM (
        SELECT e.ledger_id, e.entry_id, (octet_length(e.data) + e.rest_bytes)::bigint AS size_bytes
        FROM unnest(%(ledgers)s::bigint[], %(firsts)s::bigint[], %(lasts)s::bigint[], %(ends)s::bigint[])
             AS p(ledger_id, first_entry, last_entry, end_entry)
        JOIN vela_ledger l ON l.id = p.ledger_id AND l.segment_id = {segment}
        JOIN {entries} e ON e.ledger_id = p.ledger_id AND e.entry_id BETWEEN p.first_entry AND p.last_entry
        WHERE %(slots)s::integer[] IS NULL OR e.key_hash IS NULL OR e.key_hash = ANY(%(slots)s::integer[])
              OR e.flags & 33 <> 0 OR e.entry_id = p.end_entry
        ORDER BY e.ledger_id * %(sign)s, e.entry_id * %(sign)s LIMIT %(limit)s
    ) x
)
SELECT e.ledger_id, e.entry_id, e.messages, e.append_ms, e.deliver_at_ms, p.size_bytes,
       (SELECT count(*) FROM picked) AS picked,
       substring(CASE e.rest_bytes WHEN 0 THEN e.data ELSE e.data || coalesce((SELECT string_agg(p.data, '') FROM (
           SELECT r.data FROM {rest} r WHERE r.ledger_id = e.ledger_id AND r.entry_id = e.entry_id
           AND r.piece <= 2 + shown.most / 8064 ORDER BY r.piece
       ) p), '') END FROM 1 FOR shown.most) AS data
FROM picked p JOIN {entries} e ON e.ledger_id = p.ledger_id AND e.entry_id = p.entry_id
CROSS JOIN LATERAL (
    SELECT CASE WHEN p.size_bytes > %(most_bytes)s THEN %(head_bytes)s ELSE %(most_bytes)s END AS most
) shown
WHERE p.before_bytes < %(piece_bytes)s
ORDER BY e.ledger_id * %(sign)s, e.entry_id * %(sign)s
