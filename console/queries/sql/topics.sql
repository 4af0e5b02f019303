-- The list of topics: first the page's ids in the chosen order (keyset), then the numbers of these rows only, so that
-- no sums are computed for other pages. A partitioned topic is one row with the sums of its partitions.
-- vela_listed_topic has all columns that lists sort and filter by. The orders by name and by worst state use its
-- indexes. The others read the whole table, 15 to 25 ms for 100,000 topics. Their values change with every report:
-- updating the table takes PostgreSQL 7 ms for a report of 1,000 topics, and indexes on these values would add 25 ms.
-- Topics on which the broker never reported have -1, and so come last. `namespace_ids` is NULL for a user who sees
-- every namespace. The values of parameters are part of the text that PostgreSQL gets, so PostgreSQL drops unused
-- conditions before it plans the query. list.py fills in `{filters}`.

-- name: filters
(%(namespace_ids)s::bigint[] IS NULL OR l.namespace_id = ANY(%(namespace_ids)s))
  -- The id itself, not a subquery: only then the planner sees that the namespace is small, and sorts its few topics
  -- instead of reading an index of all topics in order.
  AND (%(namespace_id)s::bigint IS NULL OR l.namespace_id = %(namespace_id)s)
  AND (%(pattern)s = '' OR l.name ILIKE %(pattern)s)
  AND (NOT %(only_backlog)s OR l.backlog_messages > 0) AND (%(state)s = 0 OR l.state = %(state)s)
  AND (%(topic_ids)s::bigint[] IS NULL OR l.topic_id = ANY(%(topic_ids)s))
  -- Each row is looked up in two sets: joining both tables first costs more if most topics have the subscription.
  AND (%(subscription)s = ''
       OR l.topic_id IN (SELECT s.topic_id FROM vela_subscription s WHERE s.name = %(subscription)s)
       OR l.topic_id IN (SELECT p.parent_id FROM vela_topic p JOIN vela_subscription s ON s.topic_id = p.id
                         WHERE p.parent_id IS NOT NULL AND s.name = %(subscription)s))

-- name: with_subscription
-- The first topics found that have a subscription of this name. A topic may come once for each partition.
SELECT coalesce(t.parent_id, t.id) AS id FROM vela_subscription s JOIN vela_topic t ON t.id = s.topic_id
WHERE s.name = %(subscription)s LIMIT %(limit)s

-- name: having
-- The given topics that have a subscription of this name, themselves or on a partition. LIMIT keeps the planner from
-- reading all subscriptions of that name.
SELECT w.id FROM unnest(%(ids)s::bigint[]) AS w(id) CROSS JOIN LATERAL (
    SELECT FROM vela_topic t JOIN vela_subscription s ON s.topic_id = t.id
    WHERE (t.id = w.id OR t.parent_id = w.id) AND s.name = %(subscription)s LIMIT 1
) one

-- name: by_name
SELECT l.topic_id AS id, 0::float8 AS value, l.name
FROM vela_listed_topic l
WHERE l.name > %(after_name)s
  AND {filters}
ORDER BY l.name LIMIT %(limit)s

-- name: by_worst
-- A partitioned topic has the place of its worst partition. Topics without a judged subscription come last.
SELECT l.topic_id AS id, l.state * 4398046511104::float8 + l.state_since_ms AS value, l.name
FROM vela_listed_topic l
WHERE (l.state, l.state_since_ms, l.name) > (%(after_state)s::smallint, %(after_since_ms)s::bigint, %(after_name)s)
  AND {filters}
ORDER BY l.state, l.state_since_ms, l.name LIMIT %(limit)s

-- name: by_backlog
SELECT l.topic_id AS id, l.backlog_messages::float8 AS value, l.name
FROM vela_listed_topic l
WHERE (%(after_name)s = '' OR (-l.backlog_messages, l.name) > (-%(after_value)s::bigint, %(after_name)s))
  AND {filters}
ORDER BY l.backlog_messages DESC, l.name LIMIT %(limit)s

-- name: by_rate
SELECT l.topic_id AS id, l.message_rate_in::float8 AS value, l.name
FROM vela_listed_topic l
WHERE (%(after_name)s = '' OR (-l.message_rate_in, l.name) > (-%(after_value)s::float8, %(after_name)s))
  AND {filters}
ORDER BY l.message_rate_in DESC, l.name LIMIT %(limit)s

-- name: by_last
SELECT l.topic_id AS id, l.last_append_ms::float8 AS value, l.name
FROM vela_listed_topic l
WHERE (%(after_name)s = '' OR (-l.last_append_ms, l.name) > (-%(after_value)s::bigint, %(after_name)s))
  AND {filters}
ORDER BY l.last_append_ms DESC, l.name LIMIT %(limit)s

-- name: numbers
-- The worst subscription of a partitioned topic is the worst one of the partition with the largest backlog.
SELECT t.id, t.name, t.partitions,
       ARRAY(SELECT p.id FROM vela_topic p WHERE p.parent_id = t.id ORDER BY p.partition LIMIT 20) AS partition_ids,
       n.backlog_messages, n.message_rate_in, n.byte_rate_in, n.stored_bytes, n.producers,
       n.last_append_ms, n.updated_ms, n.state, n.state_since_ms, s.subscriptions, n.consumers, n.message_rate_acked,
       nullif(n.worst_subscription, '') AS worst_subscription
FROM vela_topic t
LEFT JOIN LATERAL (
    SELECT sum(n.max_backlog_messages)::bigint AS backlog_messages, sum(n.message_rate_in) AS message_rate_in,
           sum(n.byte_rate_in) AS byte_rate_in, sum(n.stored_bytes)::bigint AS stored_bytes,
           sum((SELECT count(*) FROM vela_producer_session p WHERE p.topic_id = l.id))::bigint AS producers,
           sum((SELECT count(*) FROM vela_consumer_session c
                WHERE c.topic_id = l.id AND c.subscription_id IS NOT NULL))::bigint AS consumers,
           max(n.last_append_ms) AS last_append_ms, max(n.updated_ms) AS updated_ms, min(n.state) AS state,
           (array_agg(n.state_since_ms ORDER BY n.state, n.state_since_ms) FILTER (WHERE n.state IS NOT NULL))[1]
               AS state_since_ms,
           sum(n.message_rate_acked) FILTER (WHERE n.state IS NOT NULL) AS message_rate_acked,
           (array_agg(n.worst_subscription ORDER BY n.max_backlog_messages DESC, l.id))[1] AS worst_subscription
    FROM vela_topic l JOIN vela_topic_summary n ON n.topic_id = l.id WHERE l.id = t.id OR l.parent_id = t.id
) n ON true
CROSS JOIN LATERAL (
    SELECT count(DISTINCT s.name) AS subscriptions
    FROM vela_topic l JOIN vela_subscription s ON s.topic_id = l.id WHERE l.id = t.id OR l.parent_id = t.id
) s
WHERE t.id = ANY(%(ids)s)

-- name: namespace_id
SELECT n.id FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
WHERE t.name = %(tenant)s AND n.name = %(namespace)s

-- name: namespaces
-- The first 200 namespaces by name, and the chosen one.
(SELECT t.name || '/' || n.name AS name FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
 WHERE %(namespace_ids)s::bigint[] IS NULL OR n.id = ANY(%(namespace_ids)s)
 ORDER BY 1 LIMIT 200)
UNION
SELECT t.name || '/' || n.name FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
WHERE t.name = split_part(%(chosen)s, '/', 1) AND n.name = split_part(%(chosen)s, '/', 2)
  AND (%(namespace_ids)s::bigint[] IS NULL OR n.id = ANY(%(namespace_ids)s))
ORDER BY 1
