-- Partitioned topics: add partitions, and read the statistics of all of them. One transaction grows a topic, so that a
-- reader of the new count finds the partitions and their subscriptions.

-- name: lock_parent
SELECT id, partitions FROM vela_topic WHERE name = %s FOR UPDATE

-- name: taken_names
SELECT name FROM vela_topic WHERE name = ANY(%s::text[]) ORDER BY name

-- name: copy_subscriptions
-- Creates on the new partitions every subscription that an earlier partition has, with its last known type. The new
-- partitions are empty, so each subscription starts at their first message. It is paused if it is paused wherever it exists.
WITH known AS (
    SELECT DISTINCT ON (s.name) s.name, s.type, s.properties, bool_and(s.paused) OVER (PARTITION BY s.name) AS paused
    FROM vela_subscription s JOIN vela_topic t ON t.id = s.topic_id
    WHERE t.parent_id = %(parent_id)s AND t.partition < %(before)s ORDER BY s.name, t.partition
), made AS (
    INSERT INTO vela_subscription (topic_id, name, type, properties, paused, created_at)
    SELECT t.id, known.name, known.type, known.properties, known.paused, now()
    FROM vela_topic t CROSS JOIN known WHERE t.parent_id = %(parent_id)s AND t.partition >= %(before)s
    RETURNING id
), cursors AS (
    INSERT INTO vela_cursor (subscription_id, mark_delete_ledger, mark_delete_entry, acked_messages, acked_entries,
                             acked_bytes, version)
    SELECT id, -1, -1, 0, 0, 0, 0 FROM made
)
SELECT name FROM known ORDER BY name

-- name: set_partitions
UPDATE vela_topic SET partitions = %(partitions)s WHERE id = %(id)s

-- name: subscription_names
SELECT DISTINCT s.name FROM vela_subscription s JOIN vela_topic t ON t.id = s.topic_id JOIN vela_topic p ON p.id = t.parent_id
WHERE p.name = %s ORDER BY s.name

-- name: statistics
-- As last reported, at most a second old while anything changes.
SELECT t.name, coalesce(y.messages_in, 0), coalesce(y.bytes_in, 0), coalesce(y.stored_bytes, 0), coalesce(y.producers, 0),
       coalesce(y.message_rate_in, 0), coalesce(y.byte_rate_in, 0), coalesce(y.last_append_ms, 0),
       coalesce(y.updated_ms, 0)
FROM vela_topic p JOIN vela_topic t ON t.id = p.id OR t.parent_id = p.id
LEFT JOIN vela_topic_summary y ON y.topic_id = t.id
WHERE p.name = %s AND t.partitions = 0 ORDER BY t.partition

-- name: subscription_statistics
SELECT t.name, s.name, s.type, coalesce(y.consumers, 0), greatest(n.messages_in - y.acked_messages, 0),
       greatest(n.bytes_in - y.acked_bytes, 0),
       coalesce(y.unacked_messages, 0), coalesce(y.message_rate_out, 0), coalesce(y.message_rate_acked, 0),
       coalesce(y.messages_redelivered, 0)
FROM vela_topic p JOIN vela_topic t ON t.id = p.id OR t.parent_id = p.id
JOIN vela_subscription s ON s.topic_id = t.id LEFT JOIN vela_subscription_summary y ON y.subscription_id = s.id
LEFT JOIN vela_topic_summary n ON n.topic_id = t.id
WHERE p.name = %s AND t.partitions = 0 ORDER BY s.name, t.partition
