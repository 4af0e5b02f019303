-- One subscription.

-- name: head
SELECT s.id, s.name, s.type, s.paused, s.created_at, t.id AS topic_id, t.name AS topic_name, t.partition,
       c.mark_delete_ledger, c.mark_delete_entry, c.acked_messages, c.acked_entries, c.acked_bytes,
       c.version, u.read_ledger, u.read_entry, u.consumers,
       u.unacked_messages, u.replay_entries, u.message_rate_out, u.message_rate_acked, u.messages_redelivered,
       u.updated_ms, u.problems, n.message_rate_in
FROM vela_subscription s
JOIN vela_topic t ON t.id = s.topic_id
JOIN vela_cursor c ON c.subscription_id = s.id
LEFT JOIN vela_subscription_summary u ON u.subscription_id = s.id
LEFT JOIN vela_topic_summary n ON n.topic_id = t.id
WHERE t.name = %(topic)s AND s.name = %(subscription)s

-- name: chunks
-- Acks beyond mark-delete. The limit bounds the cost of a page, and the page says if there are more.
SELECT ledger_id, chunk, bits, ack_sets
FROM vela_cursor_chunk WHERE cursor_id = %(subscription_id)s ORDER BY ledger_id, chunk LIMIT %(limit)s

-- name: consumers
SELECT key, name, subscription_type, address, client_version, face, priority, connected_ms, permits, unacked_messages,
       blocked, writable, messages_out, bytes_out, messages_acked, messages_redelivered, last_flow_ms, last_delivery_ms,
       last_ack_ms, updated_ms, properties
FROM vela_consumer_session WHERE subscription_id = %(subscription_id)s ORDER BY priority, name, key LIMIT %(limit)s

-- name: pending
SELECT delivery_id, consumer_name, ledger_id, first_entry, last_entry, messages, delivered_ms, redelivery_count,
       deadline_ms
FROM vela_pending_ack WHERE subscription_id = %(subscription_id)s ORDER BY ledger_id, first_entry LIMIT %(limit)s
