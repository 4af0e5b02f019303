-- Namespaces with the sums of their topics. A page lists 50, and their numbers are read for these only.
-- Relies on vela_topic(namespace_id), vela_topic_summary's primary key and vela_subscription(topic_id).

-- name: page
SELECT n.id, t.name AS tenant, n.name, n.policies, n.created_at
FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
WHERE (t.name, n.name) > (%(after_tenant)s, %(after_name)s)
  AND (%(namespace_ids)s::bigint[] IS NULL OR n.id = ANY(%(namespace_ids)s))
  AND (%(pattern)s = '' OR t.name || '/' || n.name ILIKE %(pattern)s)
ORDER BY t.name, n.name LIMIT %(limit)s

-- name: one
SELECT n.id, t.name AS tenant, n.name, n.policies, n.created_at
FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
WHERE t.name = %(tenant)s AND n.name = %(namespace)s

-- name: numbers
-- Subscriptions are counted up to a limit: one namespace may have a million.
SELECT w.id, coalesce(l.topics, 0) AS topics, l.backlog_messages, l.stored_bytes, l.message_rate_in, s.subscriptions
FROM unnest(%(ids)s::bigint[]) AS w(id)
LEFT JOIN (
    SELECT t.namespace_id, count(*) FILTER (WHERE t.parent_id IS NULL) AS topics,
           sum(y.max_backlog_messages)::bigint AS backlog_messages, sum(y.stored_bytes)::bigint AS stored_bytes,
           sum(y.message_rate_in) AS message_rate_in
    FROM vela_topic t LEFT JOIN vela_topic_summary y ON y.topic_id = t.id
    WHERE t.namespace_id = ANY(%(ids)s::bigint[]) GROUP BY t.namespace_id
) l ON l.namespace_id = w.id
CROSS JOIN LATERAL (
    SELECT count(*) AS subscriptions FROM (
        SELECT FROM vela_topic t JOIN vela_subscription s ON s.topic_id = t.id
        WHERE t.namespace_id = w.id LIMIT %(most)s
    ) found
) s
