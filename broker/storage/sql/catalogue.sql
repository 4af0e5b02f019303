-- Names of topics, as the admin API lists them.

-- name: topics_of
-- Either the topics and partitions that have messages, or the partitioned parents.
SELECT t.name FROM vela_topic t JOIN vela_namespace n ON n.id = t.namespace_id JOIN vela_tenant w ON w.id = n.tenant_id
WHERE w.name = %(tenant)s AND n.name = %(namespace)s AND t.name LIKE %(domain)s || '://%%'
  AND (t.partitions > 0) = %(partitioned)s
ORDER BY t.name

-- name: details
SELECT t.partitions, t.properties, (extract(epoch FROM t.created_at) * 1000)::bigint FROM vela_topic t WHERE t.name = %s

-- name: subscriptions_of
-- Of the topic itself or of its partitions.
SELECT DISTINCT s.name FROM vela_topic p JOIN vela_topic t ON t.id = p.id OR t.parent_id = p.id
JOIN vela_subscription s ON s.topic_id = t.id WHERE p.name = %s ORDER BY s.name
