-- One topic.

-- name: head
-- The numbers of a partitioned topic are the sums of its partitions. Producers are counted in the table that the page
-- lists, so that both always agree.
SELECT t.id, t.name, t.partitions, t.partition, p.name AS parent_name, t.created_at, t.terminated_at, n.policies,
       o.owner_epoch, s.messages_in, s.stored_bytes, s.producers, s.message_rate_in, s.byte_rate_in, s.last_append_ms,
       s.backlog_messages, s.updated_ms, w.state, w.state_since_ms
FROM vela_topic t
JOIN vela_namespace n ON n.id = t.namespace_id
LEFT JOIN vela_topic p ON p.id = t.parent_id
LEFT JOIN vela_topic_owner o ON o.topic_id = t.id
LEFT JOIN LATERAL (
    SELECT sum(n.messages_in)::bigint AS messages_in, sum(n.stored_bytes)::bigint AS stored_bytes,
           sum((SELECT count(*) FROM vela_producer_session p WHERE p.topic_id = l.id))::bigint AS producers,
           sum(n.message_rate_in) AS message_rate_in, sum(n.byte_rate_in) AS byte_rate_in,
           max(n.last_append_ms) AS last_append_ms, sum(n.max_backlog_messages)::bigint AS backlog_messages,
           max(n.updated_ms) AS updated_ms
    FROM vela_topic l JOIN vela_topic_summary n ON n.topic_id = l.id WHERE l.id = t.id OR l.parent_id = t.id
) s ON true
LEFT JOIN LATERAL (
    SELECT w.state, w.state_since_ms FROM vela_topic l JOIN vela_topic_summary w ON w.topic_id = l.id
    WHERE (l.id = t.id OR l.parent_id = t.id) AND w.state IS NOT NULL ORDER BY w.state, w.state_since_ms LIMIT 1
) w ON true
WHERE t.name = %(name)s

-- name: partitions
SELECT t.id, t.name, t.partition, s.messages_in, s.stored_bytes, s.message_rate_in, s.max_backlog_messages AS backlog_messages,
       s.last_append_ms, s.updated_ms, s.state
FROM vela_topic t LEFT JOIN vela_topic_summary s ON s.topic_id = t.id
WHERE t.parent_id = %(topic_id)s ORDER BY t.partition

-- name: subscriptions
-- The subscriptions of the topic, or of each of its partitions. `topics`, `messages` and `bytes` are the ends of their logs,
-- read earlier.
SELECT s.id, s.name, s.type, t.id AS topic_id, t.name AS topic_name, t.partition, c.mark_delete_ledger, c.mark_delete_entry,
       c.acked_messages, greatest(e.messages - c.acked_messages, 0) AS backlog_messages,
       greatest(e.bytes - c.acked_bytes, 0) AS backlog_bytes,
       coalesce(p.consumers, CASE WHEN u.subscription_id IS NOT NULL THEN 0 END) AS consumers,
       coalesce(p.unacked_messages, CASE WHEN u.subscription_id IS NOT NULL THEN 0 END) AS unacked_messages,
       u.message_rate_out, u.message_rate_acked, u.messages_redelivered, u.updated_ms, u.state
FROM vela_topic t
JOIN unnest(%(topics)s::bigint[], %(messages)s::bigint[], %(bytes)s::bigint[]) AS e(topic_id, messages, bytes)
    ON e.topic_id = t.id
JOIN vela_subscription s ON s.topic_id = t.id
JOIN vela_cursor c ON c.subscription_id = s.id
LEFT JOIN vela_subscription_summary u ON u.subscription_id = s.id
LEFT JOIN LATERAL (
    SELECT nullif(count(*), 0)::integer AS consumers, sum(unacked_messages)::bigint AS unacked_messages
    FROM vela_consumer_session WHERE subscription_id = s.id
) p ON true
WHERE t.id = %(topic_id)s OR t.parent_id = %(topic_id)s
ORDER BY s.name, t.partition LIMIT %(limit)s

-- name: subscription_names
SELECT name FROM vela_subscription
WHERE topic_id = %(topic_id)s AND name > %(after)s AND (%(pattern)s = '' OR name ILIKE %(pattern)s)
ORDER BY name LIMIT %(limit)s

-- name: compactions
-- The compaction of the topic, or of each of its partitions. `topics`, `messages` and `bytes` are the ends of their logs,
-- read earlier.
SELECT t.name AS topic, t.partition, coalesce(c.state, 'NOT_RUN') AS state, coalesce(c.last_error, '') AS last_error,
       CASE WHEN c.generation > 0 THEN c.horizon_ledger || ':' || c.horizon_entry END AS horizon,
       c.kept_messages, c.kept_bytes, c.removed_messages, c.duration_ms, c.started_at, c.succeeded_at, c.failed_at,
       CASE WHEN c.state = 'ERROR' THEN c.retry_at END AS retry_at,
       CASE WHEN c.topic_id IS NOT NULL THEN greatest(e.messages - c.horizon_messages, 0) END AS backlog_messages,
       CASE WHEN c.topic_id IS NOT NULL THEN greatest(e.bytes - c.horizon_bytes, 0) END AS backlog_bytes
FROM vela_topic t
JOIN unnest(%(topics)s::bigint[], %(messages)s::bigint[], %(bytes)s::bigint[]) AS e(topic_id, messages, bytes)
    ON e.topic_id = t.id
LEFT JOIN vela_compaction c ON c.topic_id = t.id
WHERE t.partitions = 0 AND (t.id = %(topic_id)s OR t.parent_id = %(topic_id)s)
ORDER BY t.partition

-- name: schema
-- One version, or the newest. No row if this version is of type 0, which records that the schema was deleted.
SELECT version, type, name, data FROM (
    SELECT * FROM vela_schema
    WHERE topic_name = %(topic)s AND (%(version)s::bigint IS NULL OR version = %(version)s::bigint)
    ORDER BY version DESC LIMIT 1) newest
WHERE type <> 0

-- name: parked
SELECT t.partition, t.name AS topic_name, p.pulls, p.oldest, p.updated_ms
FROM vela_topic t JOIN vela_parked_pulls p ON p.topic_id = t.id
WHERE t.id = %(topic_id)s OR t.parent_id = %(topic_id)s ORDER BY t.partition LIMIT 100
