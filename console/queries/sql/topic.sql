-- One topic.

-- name: head
SELECT t.id, t.name, t.partitions, t.partition, p.name AS parent_name, t.created_at, t.terminated_at, n.policies,
       o.owner_epoch, s.messages_in, s.stored_bytes, s.producers, s.message_rate_in, s.byte_rate_in, s.last_append_ms,
       s.max_backlog_messages AS backlog_messages, s.updated_ms, w.state, w.state_since_ms
FROM vela_topic t
JOIN vela_namespace n ON n.id = t.namespace_id
LEFT JOIN vela_topic p ON p.id = t.parent_id
LEFT JOIN vela_topic_owner o ON o.topic_id = t.id
LEFT JOIN vela_topic_summary s ON s.topic_id = t.id
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
-- Of the topic, or of each of its partitions. `topics`, `messages` and `bytes` say where their logs end, read earlier.
SELECT s.id, s.name, s.type, t.id AS topic_id, t.name AS topic_name, t.partition, c.mark_delete_ledger, c.mark_delete_entry,
       c.acked_messages, greatest(e.messages - c.acked_messages, 0) AS backlog_messages, u.consumers,
       u.unacked_messages, u.message_rate_out, u.message_rate_acked, u.messages_redelivered, u.updated_ms, u.state
FROM vela_topic t
JOIN unnest(%(topics)s::bigint[], %(messages)s::bigint[], %(bytes)s::bigint[]) AS e(topic_id, messages, bytes)
    ON e.topic_id = t.id
JOIN vela_subscription s ON s.topic_id = t.id
JOIN vela_cursor c ON c.subscription_id = s.id
LEFT JOIN vela_subscription_summary u ON u.subscription_id = s.id
WHERE t.id = %(topic_id)s OR t.parent_id = %(topic_id)s
ORDER BY s.name, t.partition LIMIT %(limit)s

-- name: producers
SELECT p.key, p.name, t.partition, p.address, p.client_version, p.face, p.connected_ms, p.messages_in, p.bytes_in,
       p.last_sequence_id, p.last_send_ms, p.updated_ms, p.properties
FROM vela_producer_session p JOIN vela_topic t ON t.id = p.topic_id
WHERE t.id = %(topic_id)s OR t.parent_id = %(topic_id)s
ORDER BY p.name, t.partition, p.key LIMIT %(limit)s

-- name: schema
-- One version, or the newest.
SELECT version, type, name, data FROM vela_schema
WHERE topic_name = %(topic)s AND (%(version)s::bigint IS NULL OR version = %(version)s::bigint)
ORDER BY version DESC LIMIT 1
