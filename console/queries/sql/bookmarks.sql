-- Bookmarks: named places that keep the messages after them.

-- name: page
-- The bookmarks of one topic and its partitions, or of all topics. The open ledger has no size until it is sealed.
SELECT b.name, t.name AS topic_name, b.ledger_id || ':' || b.entry_id AS id, b.until,
       b.until IS NOT NULL AND b.until <= now() AS is_over, b.who, b.created_at, k.bytes AS kept_bytes
FROM vela_bookmark b
JOIN vela_topic t ON t.id = b.topic_id
LEFT JOIN LATERAL (
    SELECT sum(l.size_bytes)::bigint AS bytes FROM vela_ledger l
    WHERE l.topic_id = b.topic_id AND l.id >= b.ledger_id AND l.state = 'sealed'
) k ON true
WHERE (%(topic_id)s::bigint IS NULL OR t.id = %(topic_id)s OR t.parent_id = %(topic_id)s)
  AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
  AND (%(pattern)s = '' OR b.name ILIKE %(pattern)s OR t.name ILIKE %(pattern)s)
  AND (t.name, b.name) > (%(after_topic)s, %(after_name)s)
ORDER BY t.name, b.name LIMIT %(limit)s
