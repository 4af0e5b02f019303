-- Subscriptions, their cursors and their deliveries.

-- name: heads
-- Some subscriptions by id, or one by its topic and its name. Consumers and their unacked messages are counted in
-- the table that the page lists, so that the page's numbers always agree. `delays` is the same as in `cursors`.
SELECT s.id, s.name, s.type, s.paused, s.created_at, t.id AS topic_id, t.name AS topic_name, t.partition,
       c.mark_delete_ledger, c.mark_delete_entry, c.acked_messages, c.acked_entries, c.acked_bytes,
       c.version, u.read_ledger, u.read_entry,
       coalesce(p.consumers, CASE WHEN u.subscription_id IS NOT NULL THEN 0 END) AS consumers,
       coalesce(p.unacked_messages, CASE WHEN u.subscription_id IS NOT NULL THEN 0 END) AS unacked_messages,
       u.replay_entries, u.message_rate_out, u.message_rate_acked, u.messages_redelivered,
       u.updated_ms, u.problems, u.state, u.state_since_ms, u.drain_s, n.message_rate_in,
       s.type NOT IN ('Exclusive', 'Failover') AND coalesce(coalesce(o.policies, t.policies) -> 'delayed_delivery',
           m.policies -> 'delayed_delivery', 'true') <> 'false' AS delays
FROM vela_subscription s
JOIN vela_topic t ON t.id = s.topic_id
JOIN vela_namespace m ON m.id = t.namespace_id
LEFT JOIN vela_topic o ON o.id = t.parent_id
JOIN vela_cursor c ON c.subscription_id = s.id
LEFT JOIN vela_subscription_summary u ON u.subscription_id = s.id
LEFT JOIN vela_topic_summary n ON n.topic_id = t.id
LEFT JOIN LATERAL (
    SELECT nullif(count(*), 0)::integer AS consumers, sum(unacked_messages)::bigint AS unacked_messages
    FROM vela_consumer_session WHERE subscription_id = s.id
) p ON true
WHERE s.id = ANY(%(ids)s::bigint[] || ARRAY(
    SELECT z.id FROM vela_subscription z JOIN vela_topic q ON q.id = z.topic_id
    WHERE q.name = %(topic)s AND z.name = %(subscription)s))

-- name: partitioned_head
SELECT t.name AS topic_name, s.name, array_agg(p.partition ORDER BY p.partition) AS partitions
FROM vela_topic t JOIN vela_topic p ON p.parent_id = t.id JOIN vela_subscription s ON s.topic_id = p.id
WHERE t.name = %(topic)s AND t.partitions > 0 AND s.name = %(subscription)s
GROUP BY t.name, s.name

-- name: chunks
-- Acks beyond mark-delete. The limit for each cursor bounds the cost of a page. The page shows whether there are more.
SELECT z.cursor_id, z.ledger_id, z.chunk, z.bits, z.ack_sets
FROM unnest(%(cursors)s::bigint[]) AS p(cursor_id)
CROSS JOIN LATERAL (
    SELECT c.cursor_id, c.ledger_id, c.chunk, c.bits, c.ack_sets FROM vela_cursor_chunk c
    WHERE c.cursor_id = p.cursor_id ORDER BY c.ledger_id, c.chunk LIMIT %(limit)s
) z
ORDER BY z.cursor_id, z.ledger_id, z.chunk

-- name: pending
SELECT z.subscription_id, z.delivery_id, z.consumer_key, z.consumer_name, z.ledger_id, z.first_entry, z.last_entry, z.messages,
       z.delivered_ms, z.redelivery_count, z.deadline_ms
FROM unnest(%(subscriptions)s::bigint[]) AS p(subscription_id)
CROSS JOIN LATERAL (
    SELECT d.* FROM vela_pending_ack d
    WHERE d.subscription_id = p.subscription_id AND (%(consumer_key)s = 0 OR d.consumer_key = %(consumer_key)s)
    ORDER BY d.ledger_id, d.first_entry LIMIT %(limit)s
) z
ORDER BY z.subscription_id, z.ledger_id, z.first_entry

-- name: cursors
-- The cursors of all subscriptions of some topics, or only of those with one name. Messages wait for their delivery times
-- (`delays`) unless the type of the subscription or the policy says otherwise.
SELECT s.id, s.topic_id, s.name, c.mark_delete_ledger, c.mark_delete_entry,
       s.type NOT IN ('Exclusive', 'Failover') AND coalesce(coalesce(o.policies, t.policies) -> 'delayed_delivery',
           m.policies -> 'delayed_delivery', 'true') <> 'false' AS delays
FROM vela_subscription s
JOIN vela_cursor c ON c.subscription_id = s.id
JOIN vela_topic t ON t.id = s.topic_id
JOIN vela_namespace m ON m.id = t.namespace_id
LEFT JOIN vela_topic o ON o.id = t.parent_id
WHERE s.topic_id = ANY(%(topics)s::bigint[]) AND (%(name)s::text IS NULL OR s.name = %(name)s::text)
ORDER BY s.name, s.topic_id LIMIT %(limit)s

-- name: names
-- The names of the topic's subscriptions and of those of its partitions.
SELECT DISTINCT s.name FROM vela_topic t JOIN vela_subscription s ON s.topic_id = t.id
WHERE t.id = %(topic_id)s OR t.parent_id = %(topic_id)s ORDER BY s.name LIMIT %(limit)s

-- name: chunks_at
-- Acks of the given cursors beyond mark-delete, in the given chunks.
SELECT c.cursor_id, c.ledger_id, c.chunk, c.bits, c.ack_sets
FROM unnest(%(ledgers)s::bigint[], %(chunks)s::bigint[]) AS p(ledger_id, chunk)
JOIN vela_cursor_chunk c ON c.ledger_id = p.ledger_id AND c.chunk = p.chunk
WHERE c.cursor_id = ANY(%(cursors)s::bigint[])

-- name: last_chunks
-- For each cursor, the last of its chunks in which an entry is completely acked.
SELECT z.cursor_id, z.ledger_id, z.chunk, z.bits, ''::bytea AS ack_sets
FROM unnest(%(cursors)s::bigint[]) AS p(cursor_id)
CROSS JOIN LATERAL (
    SELECT c.cursor_id, c.ledger_id, c.chunk, c.bits FROM vela_cursor_chunk c
    WHERE c.cursor_id = p.cursor_id AND octet_length(c.bits) > 0 ORDER BY c.ledger_id DESC, c.chunk DESC LIMIT 1
) z

-- name: pending_at
-- The deliveries that wait for an ack and contain one of the given entries.
SELECT d.subscription_id, d.consumer_name, d.ledger_id, d.first_entry, d.last_entry, d.delivered_ms, d.redelivery_count
FROM unnest(%(ledgers)s::bigint[], %(entries)s::bigint[]) AS p(ledger_id, entry_id)
JOIN vela_pending_ack d ON d.ledger_id = p.ledger_id AND p.entry_id BETWEEN d.first_entry AND d.last_entry
WHERE d.subscription_id = ANY(%(subscriptions)s::bigint[])
