-- Namespaces with the sums of their topics. A page lists 50, and their numbers are read for these only.
-- Relies on vela_listed_topic(namespace_id, name).

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
SELECT w.id, count(l.topic_id) AS topics, coalesce(sum(l.subscriptions), 0)::bigint AS subscriptions,
       sum(nullif(l.backlog_messages, -1))::bigint AS backlog_messages, sum(nullif(l.stored_bytes, -1))::bigint AS stored_bytes,
       sum(nullif(l.message_rate_in, -1)) AS message_rate_in
FROM unnest(%(ids)s::bigint[]) AS w(id) LEFT JOIN vela_listed_topic l ON l.namespace_id = w.id
GROUP BY w.id
