-- The data that the job insights reads besides messages, and the table that it writes.

-- name: topic
-- A topic's id, and an array of the ids of the topic and its partitions.
SELECT t.topic_id, array(SELECT p.topic_id FROM vela_read_v1.topics p WHERE p.topic_id = t.topic_id OR p.parent_id = t.topic_id)
FROM vela_read_v1.topics t WHERE t.name = %s

-- name: subscriptions
-- The acks, redeliveries and deliveries of each subscription in each hour, summed over partitions.
SELECT h.at_ms, s.name, sum(h.messages_acked)::bigint, sum(h.messages_redelivered)::bigint, sum(h.messages_out)::bigint,
       coalesce(jsonb_agg(h.ack_latencies) FILTER (WHERE h.ack_latencies IS NOT NULL), '[]')
FROM vela_read_v1.hours h JOIN vela_read_v1.subscriptions s ON s.subscription_id = h.subscription_id
WHERE h.topic_id = ANY(%(topic_ids)s) AND h.at_ms >= %(from_ms)s
GROUP BY h.at_ms, s.name ORDER BY h.at_ms, s.name

-- name: poison
-- Entries that are delivered again and again, and not acked.
SELECT s.name, p.ledger_id || ':' || p.first_entry, p.redelivery_count
FROM vela_read_v1.pending p JOIN vela_read_v1.subscriptions s ON s.subscription_id = p.subscription_id
WHERE p.topic_id = ANY(%(topic_ids)s) AND p.redelivery_count >= %(least)s
ORDER BY p.redelivery_count DESC, p.ledger_id, p.first_entry LIMIT 20

-- name: store
-- An hour is computed from the messages that are stored. Once retention has trimmed some of them, the earlier result is
-- more accurate, so it stays.
INSERT INTO vela_insight_hour (topic_id, hour_ms, messages, size_bytes, size_p50, size_p95, size_p99, size_most, delay_p50_ms,
                               delay_p95_ms, delay_p99_ms, keyed_messages, keys, top_keys, letters, subscriptions, poison,
                               computed_at)
VALUES (%(topic_id)s, %(hour_ms)s, %(messages)s, %(size_bytes)s, %(size_p50)s, %(size_p95)s, %(size_p99)s, %(size_most)s,
        %(delay_p50_ms)s, %(delay_p95_ms)s, %(delay_p99_ms)s, %(keyed_messages)s, %(keys)s, %(top_keys)s, %(letters)s,
        %(subscriptions)s, %(poison)s, now())
ON CONFLICT (topic_id, hour_ms) DO UPDATE
SET messages = EXCLUDED.messages, size_bytes = EXCLUDED.size_bytes, size_p50 = EXCLUDED.size_p50,
    size_p95 = EXCLUDED.size_p95, size_p99 = EXCLUDED.size_p99, size_most = EXCLUDED.size_most,
    delay_p50_ms = EXCLUDED.delay_p50_ms, delay_p95_ms = EXCLUDED.delay_p95_ms, delay_p99_ms = EXCLUDED.delay_p99_ms,
    keyed_messages = EXCLUDED.keyed_messages, keys = EXCLUDED.keys, top_keys = EXCLUDED.top_keys,
    letters = EXCLUDED.letters, subscriptions = EXCLUDED.subscriptions, poison = EXCLUDED.poison,
    computed_at = EXCLUDED.computed_at
WHERE vela_insight_hour.messages <= EXCLUDED.messages

-- name: store_subscriptions
-- The values of subscriptions are not computed from the messages, so they are stored even if the messages are trimmed.
UPDATE vela_insight_hour SET subscriptions = %(subscriptions)s WHERE topic_id = %(topic_id)s AND hour_ms = %(hour_ms)s
