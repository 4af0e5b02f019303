-- The list of topics: first the page's ids in the chosen order (keyset), then the numbers of these rows only, so that
-- topics on other pages cost nothing. A partitioned topic is one row with the sums of its partitions.
-- `namespace_ids` is NULL for a user who sees every namespace, and the condition then goes before the query is planned.
-- Relies on vela_topic(name), vela_topic(parent_id), vela_topic(namespace_id) and the primary key of vela_topic_summary.

-- name: by_name
SELECT t.id, 0::float8 AS value, t.name
FROM vela_topic t
WHERE t.parent_id IS NULL AND t.name > %(after_name)s
  AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
  AND (%(pattern)s = '' OR t.name ILIKE %(pattern)s) AND (%(prefix)s = '' OR starts_with(t.name, %(prefix)s))
  AND (NOT %(only_backlog)s OR t.id IN (
      SELECT coalesce(l.parent_id, l.id) FROM vela_topic_summary s JOIN vela_topic l ON l.id = s.topic_id
      WHERE s.max_backlog_messages > 0))
  AND (%(state)s = 0 OR t.id IN (
      SELECT coalesce(l.parent_id, l.id) FROM vela_topic_summary s JOIN vela_topic l ON l.id = s.topic_id
      WHERE s.state = %(state)s AND NOT EXISTS (
          SELECT FROM vela_topic p JOIN vela_topic_summary q ON q.topic_id = p.id
          WHERE p.parent_id = l.parent_id AND q.state < s.state)))
ORDER BY t.name LIMIT %(limit)s

-- name: by_worst
-- The index vela_topic_summary_worst has this order. A partitioned topic comes where its worst partition does, and that
-- partition's name is the key of its row. Topics whose subscriptions nobody has judged come last, by name.
WITH judged AS MATERIALIZED (
    SELECT t.id, s.state * 4398046511104::float8 + s.state_since_ms AS value, l.name
    FROM vela_topic_summary s
    JOIN vela_topic l ON l.id = s.topic_id
    JOIN vela_topic t ON t.id = coalesce(l.parent_id, l.id)
    WHERE (s.state, s.state_since_ms, s.topic_id) > (%(after_state)s::smallint, %(after_since_ms)s::bigint, coalesce(
              (SELECT id FROM vela_topic WHERE name = %(after_name)s), 0))
      AND (%(state)s = 0 OR s.state = %(state)s)
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
      AND (NOT %(only_backlog)s OR s.max_backlog_messages > 0 OR EXISTS (
          SELECT FROM vela_topic p JOIN vela_topic_summary q ON q.topic_id = p.id
          WHERE p.parent_id = l.parent_id AND q.max_backlog_messages > 0))
      AND (%(pattern)s = '' OR t.name ILIKE %(pattern)s) AND (%(prefix)s = '' OR starts_with(t.name, %(prefix)s))
      -- CASE: siblings are looked up for partitions only, and the order stays that of the index.
      AND CASE WHEN l.parent_id IS NULL THEN true ELSE NOT EXISTS (
          SELECT FROM vela_topic p JOIN vela_topic_summary q ON q.topic_id = p.id
          WHERE p.parent_id = l.parent_id
            AND (q.state, q.state_since_ms, q.topic_id) < (s.state, s.state_since_ms, s.topic_id)) END
    ORDER BY s.state, s.state_since_ms, s.topic_id LIMIT %(limit)s
), others AS (
    SELECT t.id, 9007199254740991::float8 AS value, t.name
    FROM vela_topic t
    WHERE t.parent_id IS NULL AND (SELECT count(*) FROM judged) < %(limit)s AND %(state)s = 0 AND NOT %(only_backlog)s
      AND (%(after_state)s < 2047 OR t.name > %(after_name)s)
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
      AND (%(pattern)s = '' OR t.name ILIKE %(pattern)s) AND (%(prefix)s = '' OR starts_with(t.name, %(prefix)s))
      AND NOT EXISTS (
          SELECT FROM vela_topic l JOIN vela_topic_summary s ON s.topic_id = l.id
          WHERE (l.id = t.id OR l.parent_id = t.id) AND s.state IS NOT NULL)
    ORDER BY t.name LIMIT %(limit)s
)
SELECT id, value, name FROM judged UNION ALL SELECT id, value, name FROM others
LIMIT %(limit)s

-- The orders by a number treat unpartitioned and partitioned topics separately, because one GROUP BY over both took 440 ms
-- for 100,000 topics and this takes 60 ms.

-- name: by_backlog
WITH logical AS (
    SELECT t.id, t.name, coalesce(s.max_backlog_messages, -1)::float8 AS value, s.max_backlog_messages > 0 AS behind
    FROM vela_topic t LEFT JOIN vela_topic_summary s ON s.topic_id = t.id
    WHERE t.parent_id IS NULL AND t.partitions = 0
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    UNION ALL
    SELECT t.id, t.name, coalesce(sum(s.max_backlog_messages), -1)::float8, max(s.max_backlog_messages) > 0
    FROM vela_topic t
    LEFT JOIN vela_topic l ON l.parent_id = t.id LEFT JOIN vela_topic_summary s ON s.topic_id = l.id
    WHERE t.partitions > 0
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    GROUP BY t.id
)
SELECT id, value, name FROM logical
WHERE (behind OR NOT %(only_backlog)s)
  AND (%(state)s = 0 OR id IN (
      SELECT coalesce(l.parent_id, l.id) FROM vela_topic_summary s JOIN vela_topic l ON l.id = s.topic_id
      WHERE s.state = %(state)s AND NOT EXISTS (
          SELECT FROM vela_topic p JOIN vela_topic_summary q ON q.topic_id = p.id
          WHERE p.parent_id = l.parent_id AND q.state < s.state)))
  AND (%(pattern)s = '' OR name ILIKE %(pattern)s) AND (%(prefix)s = '' OR starts_with(name, %(prefix)s))
  AND (%(after_name)s = '' OR (-value, name) > (-%(after_value)s::float8, %(after_name)s))
ORDER BY value DESC, name LIMIT %(limit)s

-- name: by_rate
WITH logical AS (
    SELECT t.id, t.name, coalesce(s.message_rate_in, -1)::float8 AS value, s.max_backlog_messages > 0 AS behind
    FROM vela_topic t LEFT JOIN vela_topic_summary s ON s.topic_id = t.id
    WHERE t.parent_id IS NULL AND t.partitions = 0
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    UNION ALL
    SELECT t.id, t.name, coalesce(sum(s.message_rate_in), -1)::float8, max(s.max_backlog_messages) > 0
    FROM vela_topic t
    LEFT JOIN vela_topic l ON l.parent_id = t.id LEFT JOIN vela_topic_summary s ON s.topic_id = l.id
    WHERE t.partitions > 0
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    GROUP BY t.id
)
SELECT id, value, name FROM logical
WHERE (behind OR NOT %(only_backlog)s)
  AND (%(state)s = 0 OR id IN (
      SELECT coalesce(l.parent_id, l.id) FROM vela_topic_summary s JOIN vela_topic l ON l.id = s.topic_id
      WHERE s.state = %(state)s AND NOT EXISTS (
          SELECT FROM vela_topic p JOIN vela_topic_summary q ON q.topic_id = p.id
          WHERE p.parent_id = l.parent_id AND q.state < s.state)))
  AND (%(pattern)s = '' OR name ILIKE %(pattern)s) AND (%(prefix)s = '' OR starts_with(name, %(prefix)s))
  AND (%(after_name)s = '' OR (-value, name) > (-%(after_value)s::float8, %(after_name)s))
ORDER BY value DESC, name LIMIT %(limit)s

-- name: by_last
WITH logical AS (
    SELECT t.id, t.name, coalesce(s.last_append_ms, -1)::float8 AS value, s.max_backlog_messages > 0 AS behind
    FROM vela_topic t LEFT JOIN vela_topic_summary s ON s.topic_id = t.id
    WHERE t.parent_id IS NULL AND t.partitions = 0
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    UNION ALL
    SELECT t.id, t.name, coalesce(max(s.last_append_ms), -1)::float8, max(s.max_backlog_messages) > 0
    FROM vela_topic t
    LEFT JOIN vela_topic l ON l.parent_id = t.id LEFT JOIN vela_topic_summary s ON s.topic_id = l.id
    WHERE t.partitions > 0
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    GROUP BY t.id
)
SELECT id, value, name FROM logical
WHERE (behind OR NOT %(only_backlog)s)
  AND (%(state)s = 0 OR id IN (
      SELECT coalesce(l.parent_id, l.id) FROM vela_topic_summary s JOIN vela_topic l ON l.id = s.topic_id
      WHERE s.state = %(state)s AND NOT EXISTS (
          SELECT FROM vela_topic p JOIN vela_topic_summary q ON q.topic_id = p.id
          WHERE p.parent_id = l.parent_id AND q.state < s.state)))
  AND (%(pattern)s = '' OR name ILIKE %(pattern)s) AND (%(prefix)s = '' OR starts_with(name, %(prefix)s))
  AND (%(after_name)s = '' OR (-value, name) > (-%(after_value)s::float8, %(after_name)s))
ORDER BY value DESC, name LIMIT %(limit)s

-- name: numbers
SELECT t.id, t.name, t.partitions,
       ARRAY(SELECT p.id FROM vela_topic p WHERE p.parent_id = t.id ORDER BY p.partition LIMIT 20) AS partition_ids,
       n.backlog_messages, n.message_rate_in, n.byte_rate_in, n.stored_bytes, n.producers,
       n.last_append_ms, n.updated_ms, n.state, n.state_since_ms, s.subscriptions, n.consumers, s.message_rate_acked,
       w.name AS worst_subscription
FROM vela_topic t
LEFT JOIN LATERAL (
    SELECT sum(n.max_backlog_messages)::bigint AS backlog_messages, sum(n.message_rate_in) AS message_rate_in,
           sum(n.byte_rate_in) AS byte_rate_in, sum(n.stored_bytes)::bigint AS stored_bytes,
           sum((SELECT count(*) FROM vela_producer_session p WHERE p.topic_id = l.id))::bigint AS producers,
           sum((SELECT count(*) FROM vela_consumer_session c
                WHERE c.topic_id = l.id AND c.subscription_id IS NOT NULL))::bigint AS consumers,
           max(n.last_append_ms) AS last_append_ms, max(n.updated_ms) AS updated_ms, min(n.state) AS state,
           (array_agg(n.state_since_ms ORDER BY n.state, n.state_since_ms) FILTER (WHERE n.state IS NOT NULL))[1]
               AS state_since_ms
    FROM vela_topic l JOIN vela_topic_summary n ON n.topic_id = l.id WHERE l.id = t.id OR l.parent_id = t.id
) n ON true
LEFT JOIN LATERAL (
    SELECT count(DISTINCT s.name) AS subscriptions, sum(u.message_rate_acked) AS message_rate_acked
    FROM vela_topic l JOIN vela_subscription s ON s.topic_id = l.id
    LEFT JOIN vela_subscription_summary u ON u.subscription_id = s.id WHERE l.id = t.id OR l.parent_id = t.id
) s ON true
LEFT JOIN LATERAL (
    SELECT s.name FROM vela_topic l JOIN vela_subscription s ON s.topic_id = l.id
    JOIN vela_topic_summary n ON n.topic_id = l.id
    JOIN vela_subscription_summary u ON u.subscription_id = s.id AND u.acked_messages < n.messages_in
    WHERE l.id = t.id OR l.parent_id = t.id GROUP BY s.name ORDER BY sum(n.messages_in - u.acked_messages) DESC LIMIT 1
) w ON true
WHERE t.id = ANY(%(ids)s)

-- name: namespaces
-- The first 200, and the one that is chosen.
(SELECT t.name || '/' || n.name AS name FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
 WHERE %(namespace_ids)s::bigint[] IS NULL OR n.id = ANY(%(namespace_ids)s)
 ORDER BY 1 LIMIT 200)
UNION
SELECT t.name || '/' || n.name FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
WHERE t.name = split_part(%(chosen)s, '/', 1) AND n.name = split_part(%(chosen)s, '/', 2)
  AND (%(namespace_ids)s::bigint[] IS NULL OR n.id = ANY(%(namespace_ids)s))
ORDER BY 1
