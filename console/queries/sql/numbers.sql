-- Numbers of topics and subscriptions for programs: the same as on the pages.

-- name: topic
SELECT t.id, t.name, t.partitions, t.partition, p.name AS parent, t.created_at, t.terminated_at,
       n.policies AS namespace_policies, coalesce(p.policies, t.policies) AS policies
FROM vela_topic t
JOIN vela_namespace n ON n.id = t.namespace_id
LEFT JOIN vela_topic p ON p.id = t.parent_id
WHERE t.name = %(name)s

-- name: bookmarks
SELECT name, ledger_id || ':' || entry_id AS id, until, who, created_at
FROM vela_bookmark WHERE topic_id = %(topic_id)s ORDER BY name LIMIT %(limit)s

-- name: cursors
-- One row for each cursor: a subscription of the topic, or of one of its partitions. The parameters `topics`, `messages`
-- and `bytes` are the ends of their logs. They were read earlier, so a cursor may be ahead of them.
SELECT s.id, s.name, t.name AS topic, t.partition, s.type, s.paused, c.mark_delete_ledger || ':' || c.mark_delete_entry AS
       mark_delete, c.acked_messages, c.version, greatest(e.messages - c.acked_messages, 0) AS backlog_messages,
       greatest(e.bytes - c.acked_bytes, 0) AS backlog_bytes,
       coalesce(p.consumers, CASE WHEN u.subscription_id IS NOT NULL THEN 0 END) AS consumers,
       coalesce(p.unacked_messages, CASE WHEN u.subscription_id IS NOT NULL THEN 0 END) AS unacked_messages, p.permits,
       u.replay_entries, u.message_rate_out, u.message_rate_acked, u.messages_redelivered, u.updated_ms,
       u.state, u.state_since_ms, u.drain_s
FROM vela_topic t
JOIN unnest(%(topics)s::bigint[], %(messages)s::bigint[], %(bytes)s::bigint[]) AS e(topic_id, messages, bytes)
    ON e.topic_id = t.id
JOIN vela_subscription s ON s.topic_id = t.id
JOIN vela_cursor c ON c.subscription_id = s.id
LEFT JOIN vela_subscription_summary u ON u.subscription_id = s.id
LEFT JOIN LATERAL (
    SELECT nullif(count(*), 0)::integer AS consumers, sum(unacked_messages)::bigint AS unacked_messages,
           sum(permits)::bigint AS permits
    FROM vela_consumer_session WHERE subscription_id = s.id
) p ON true
WHERE (t.id = %(topic_id)s OR t.parent_id = %(topic_id)s) AND (s.name, t.partition) > (%(after)s, %(after_partition)s)
ORDER BY s.name, t.partition LIMIT %(limit)s

-- name: subscriptions
-- The same numbers, summed over partitions: one row for each name. A sum is NULL if the broker reported none of its rows.
SELECT s.name, max(s.type) AS type, bool_or(s.paused) AS paused, count(*) AS cursors,
       sum(c.acked_messages)::bigint AS acked_messages,
       sum(greatest(e.messages - c.acked_messages, 0))::bigint AS backlog_messages,
       sum(greatest(e.bytes - c.acked_bytes, 0))::bigint AS backlog_bytes,
       sum(coalesce(p.consumers, CASE WHEN u.subscription_id IS NOT NULL THEN 0 END))::bigint AS consumers,
       sum(coalesce(p.unacked_messages, CASE WHEN u.subscription_id IS NOT NULL THEN 0 END))::bigint AS unacked_messages,
       sum(p.permits)::bigint AS permits,
       sum(u.replay_entries)::bigint AS replay_entries, sum(u.message_rate_out) AS message_rate_out,
       sum(u.message_rate_acked) AS message_rate_acked, sum(u.messages_redelivered)::bigint AS messages_redelivered,
       max(u.updated_ms) AS updated_ms, min(u.state) AS state,
       (array_agg(u.state_since_ms ORDER BY u.state, u.state_since_ms) FILTER (WHERE u.state IS NOT NULL))[1]
           AS state_since_ms, max(u.drain_s) AS drain_s
FROM vela_topic t
JOIN unnest(%(topics)s::bigint[], %(messages)s::bigint[], %(bytes)s::bigint[]) AS e(topic_id, messages, bytes)
    ON e.topic_id = t.id
JOIN vela_subscription s ON s.topic_id = t.id
JOIN vela_cursor c ON c.subscription_id = s.id
LEFT JOIN vela_subscription_summary u ON u.subscription_id = s.id
LEFT JOIN LATERAL (
    SELECT nullif(count(*), 0)::integer AS consumers, sum(unacked_messages)::bigint AS unacked_messages,
           sum(permits)::bigint AS permits
    FROM vela_consumer_session WHERE subscription_id = s.id
) p ON true
WHERE (t.id = %(topic_id)s OR t.parent_id = %(topic_id)s) AND s.name > %(after)s
GROUP BY s.name ORDER BY s.name LIMIT %(limit)s

-- name: first_unacked
-- The entry after a mark-delete position is the oldest unacked one. In an open ledger it may not be stored yet. A list must
-- not wait for files, so an entry inside an offloaded ledger counts as stored when the ledger's last entry was. A cursor
-- without an unacked entry has a row too, so that the caller sees where the limit cuts.
SELECT c.name, c.partition, f.ledger_id, f.entry_id, f.segment_id, f.append_ms
FROM (
    SELECT s.name, t.id AS topic_id, t.partition, c.mark_delete_ledger, c.mark_delete_entry
    FROM vela_topic t
    JOIN vela_subscription s ON s.topic_id = t.id
    JOIN vela_cursor c ON c.subscription_id = s.id
    WHERE (t.id = %(topic_id)s OR t.parent_id = %(topic_id)s) AND s.name = ANY(%(names)s)
    ORDER BY s.name, t.partition LIMIT %(limit)s
) c
LEFT JOIN LATERAL (
    SELECT l.id AS ledger_id, l.segment_id, n.entry_id,
           CASE WHEN l.file_name IS NULL THEN NULL WHEN n.entry_id = 0 THEN l.first_append_ms ELSE l.last_append_ms END AS append_ms
    FROM vela_ledger l
    CROSS JOIN LATERAL (
        SELECT CASE WHEN l.id = c.mark_delete_ledger THEN c.mark_delete_entry + 1 ELSE 0 END AS entry_id
    ) n
    WHERE l.topic_id = c.topic_id AND l.id >= c.mark_delete_ledger AND (l.state = 'open' OR n.entry_id < l.entries)
    ORDER BY l.id LIMIT 1
) f ON true
ORDER BY c.name, c.partition

-- name: totals
-- A backlog is the published messages less the acked ones, both as the broker last reported them. `namespace_ids` is NULL
-- for a user who sees every namespace: then the planner drops the joins that only this filter needs.
SELECT (SELECT count(*) FROM vela_topic t WHERE t.parent_id IS NULL
        AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))) AS topics,
       (SELECT count(*) FROM vela_producer_session p LEFT JOIN vela_topic t ON t.id = p.topic_id
        WHERE %(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s)) AS producers, t.message_rate_in, t.byte_rate_in, t.stored_bytes,
       c.consumers, s.backlog_messages, c.unacked_messages, s.message_rate_out, s.message_rate_acked
FROM (
    SELECT coalesce(sum(message_rate_in), 0) AS message_rate_in, coalesce(sum(byte_rate_in), 0) AS byte_rate_in,
           coalesce(sum(stored_bytes), 0)::bigint AS stored_bytes
    FROM vela_topic_summary s LEFT JOIN vela_topic t ON t.id = s.topic_id
    WHERE %(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s)
) t
CROSS JOIN (
    SELECT coalesce(sum(greatest(n.messages_in - u.acked_messages, 0)), 0)::bigint AS backlog_messages,
           coalesce(sum(u.message_rate_out), 0) AS message_rate_out,
           coalesce(sum(u.message_rate_acked), 0) AS message_rate_acked
    FROM vela_subscription_summary u
    JOIN vela_subscription s ON s.id = u.subscription_id
    JOIN vela_topic_summary n ON n.topic_id = s.topic_id LEFT JOIN vela_topic t ON t.id = s.topic_id
    WHERE %(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s)
) s
CROSS JOIN (
    SELECT count(*) AS consumers, coalesce(sum(unacked_messages), 0)::bigint AS unacked_messages
    FROM vela_consumer_session c LEFT JOIN vela_topic t ON t.id = c.topic_id
    WHERE c.subscription_id IS NOT NULL
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
) c
