-- Dead-letter topics: those with the usual name (the index vela_topic_dead_letters), those to which a client's
-- dead-letter producer is connected, and those that were redriven. Each partition is a separate row. topics.py fills in
-- `{known}` and `{letters}`.

-- name: known
known AS (
    SELECT topic_id FROM vela_producer_session WHERE name LIKE '%%-DLQ'
    UNION SELECT topic_id FROM vela_act WHERE kind = 'redrive'
)

-- name: letters
letters AS (
    SELECT id, name, namespace_id FROM vela_topic
    WHERE partitions = 0 AND (name LIKE '%%-DLQ' OR name ~ '-DLQ-partition-[0-9]+$')
    UNION SELECT t.id, t.name, t.namespace_id FROM known k JOIN vela_topic t ON t.id = k.topic_id WHERE t.partitions = 0
)

-- name: by_name
WITH {known}, usual AS (
    SELECT t.id, t.name FROM vela_topic t
    WHERE t.partitions = 0 AND (t.name LIKE '%%-DLQ' OR t.name ~ '-DLQ-partition-[0-9]+$')
      AND t.name > %(after_name)s AND (%(pattern)s = '' OR t.name ILIKE %(pattern)s)
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    ORDER BY t.name LIMIT %(limit)s
), others AS (
    SELECT t.id, t.name FROM known k JOIN vela_topic t ON t.id = k.topic_id
    WHERE t.partitions = 0 AND t.name > %(after_name)s AND (%(pattern)s = '' OR t.name ILIKE %(pattern)s)
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    ORDER BY t.name LIMIT %(limit)s
)
SELECT id, name, 0::float8 AS value FROM (SELECT * FROM usual UNION SELECT * FROM others) t ORDER BY name LIMIT %(limit)s

-- name: by_waiting
-- Without a durable subscription (state is NULL) nobody will read the letters. While any letter is stored, the value
-- counts all letters ever published.
WITH {known}, {letters}, valued AS (
    SELECT t.id, t.name, CASE WHEN s.topic_id IS NULL THEN -1
                              WHEN s.state IS NULL AND s.stored_bytes > 0 THEN s.messages_in
                              ELSE s.max_backlog_messages END::float8 AS value
    FROM letters t LEFT JOIN vela_topic_summary s ON s.topic_id = t.id
    WHERE (%(pattern)s = '' OR t.name ILIKE %(pattern)s)
      AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
)
SELECT id, name, value FROM valued
WHERE %(after_name)s = '' OR (-value, name) > (-%(after_value)s::float8, %(after_name)s)
ORDER BY value DESC, name LIMIT %(limit)s

-- name: unread
-- Dead-letter topics that nobody reads: without a durable subscription (state is NULL), or without a consumer.
WITH {known}, {letters}
SELECT t.id AS topic_id, t.name, CASE WHEN s.state IS NULL THEN '' ELSE s.worst_subscription END AS subscription,
       CASE WHEN s.state IS NULL THEN s.messages_in ELSE s.max_backlog_messages END AS messages
FROM letters t JOIN vela_topic_summary s ON s.topic_id = t.id
WHERE CASE WHEN s.state IS NULL THEN s.stored_bytes > 0 AND s.messages_in > 0 ELSE s.worst_subscription <> '' END
  AND NOT EXISTS (SELECT FROM vela_consumer_session c WHERE c.topic_id = t.id AND c.subscription_id IS NOT NULL)
  AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
ORDER BY s.state IS NOT NULL, messages DESC, t.name LIMIT %(limit)s

-- name: numbers
-- The oldest letter is the next entry of the subscription that has acked least, or the first stored entry if there is no
-- subscription. The row of an open ledger does not say how many entries the ledger has. For an offloaded ledger see
-- numbers.sql, first_unacked.
SELECT t.id, t.name, n.messages_in, n.max_backlog_messages AS waiting_messages, n.stored_bytes, n.last_append_ms, n.updated_ms,
       (SELECT count(*) FROM vela_subscription s WHERE s.topic_id = t.id) AS subscriptions,
       (SELECT count(*) FROM vela_consumer_session c
        WHERE c.topic_id = t.id AND c.subscription_id IS NOT NULL) AS consumers,
       w.name AS worst_subscription, l.id AS oldest_ledger, l.segment_id AS oldest_segment,
       CASE WHEN l.id = w.mark_delete_ledger THEN w.mark_delete_entry + 1 ELSE 0 END AS oldest_entry,
       CASE WHEN l.file_name IS NULL THEN NULL
            WHEN l.id = w.mark_delete_ledger AND w.mark_delete_entry >= 0 THEN l.last_append_ms
            ELSE l.first_append_ms END AS oldest_append_ms
FROM vela_topic t
LEFT JOIN vela_topic_summary n ON n.topic_id = t.id
LEFT JOIN LATERAL (
    SELECT s.name, c.mark_delete_ledger, c.mark_delete_entry
    FROM vela_subscription s JOIN vela_cursor c ON c.subscription_id = s.id
    WHERE s.topic_id = t.id ORDER BY c.acked_messages, s.id LIMIT 1
) w ON true
LEFT JOIN LATERAL (
    SELECT l.id, l.segment_id, l.file_name, l.first_append_ms, l.last_append_ms FROM vela_ledger l
    WHERE l.topic_id = t.id AND (l.segment_id IS NOT NULL OR l.file_name IS NOT NULL) AND l.id >= coalesce(w.mark_delete_ledger, 0)
      AND (l.id IS DISTINCT FROM w.mark_delete_ledger OR l.state = 'open' OR l.entries > w.mark_delete_entry + 1)
    ORDER BY l.id LIMIT 1
) l ON true
WHERE t.id = ANY(%(ids)s)

-- name: published
-- Letters of the last day and the last hour. Each bucket is looked up, as in history.sql.
SELECT w.topic_id, coalesce(h.messages, 0)::bigint AS hour_messages, coalesce(d.messages, 0)::bigint AS day_messages
FROM unnest(%(ids)s::bigint[]) AS w(topic_id)
CROSS JOIN LATERAL (
    SELECT sum(q.messages_in) AS messages FROM (
        SELECT z.messages_in
        FROM generate_series(%(from_600)s::bigint, %(to_600)s::bigint - 1, 600000) AS g(at_ms) CROSS JOIN LATERAL (
            SELECT messages_in FROM vela_stats_point_600s
            WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = 0 OFFSET 0
        ) z
        UNION ALL
        SELECT z.messages_in
        FROM generate_series(%(from_60)s::bigint, %(to_60)s::bigint - 1, 60000) AS g(at_ms) CROSS JOIN LATERAL (
            SELECT messages_in FROM vela_stats_point_60s
            WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = 0 OFFSET 0
        ) z
        UNION ALL
        SELECT z.messages_in
        FROM generate_series(%(from_10)s::bigint, %(to_10)s::bigint - 1, 10000) AS g(at_ms) CROSS JOIN LATERAL (
            SELECT messages_in FROM vela_stats_point_10s
            WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = 0 OFFSET 0
        ) z
    ) q
) d
CROSS JOIN LATERAL (
    SELECT sum(q.messages_in) AS messages FROM (
        SELECT z.messages_in
        FROM generate_series(%(hour_from_60)s::bigint, %(hour_to_60)s::bigint - 1, 60000) AS g(at_ms) CROSS JOIN LATERAL (
            SELECT messages_in FROM vela_stats_point_60s
            WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = 0 OFFSET 0
        ) z
        UNION ALL
        SELECT z.messages_in
        FROM generate_series(%(hour_from_10)s::bigint, %(hour_to_10)s::bigint - 1, 10000) AS g(at_ms) CROSS JOIN LATERAL (
            SELECT messages_in FROM vela_stats_point_10s
            WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = 0 OFFSET 0
        ) z
    ) q
) h

-- name: origins
-- The given pairs of topic and subscription that exist. A partitioned topic has the subscriptions of its first partition.
SELECT w.letters, w.topic, w.subscription
FROM unnest(%(letters)s::text[], %(topics)s::text[], %(subscriptions)s::text[]) AS w(letters, topic, subscription)
WHERE EXISTS (
    SELECT FROM vela_topic t JOIN vela_subscription s ON s.topic_id = t.id AND s.name = w.subscription
    WHERE t.name IN (w.topic, w.topic || '-partition-0'))

-- name: stored_ledgers
-- The ledgers of the messages that letters were copied from. A ledger that was trimmed is not in the answer.
SELECT l.id AS ledger_id, t.name AS topic_name, CASE WHEN l.state = 'open' THEN NULL ELSE l.entries END AS entries
FROM vela_ledger l JOIN vela_topic t ON t.id = l.topic_id
WHERE l.id = ANY(%(ledgers)s::bigint[]) AND (l.segment_id IS NOT NULL OR l.file_name IS NOT NULL)
  AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
