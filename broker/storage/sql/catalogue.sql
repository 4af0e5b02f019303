-- Names and details of topics and subscriptions, for the admin API.

-- name: topics_of
-- Either the topics and partitions, which can store messages, or the partitioned parents, which cannot.
SELECT t.name FROM vela_topic t JOIN vela_namespace n ON n.id = t.namespace_id JOIN vela_tenant w ON w.id = n.tenant_id
WHERE w.name = %(tenant)s AND n.name = %(namespace)s AND t.name LIKE %(domain)s || '://%%'
  AND (t.partitions > 0) = %(partitioned)s
ORDER BY t.name

-- name: details
SELECT t.partitions, t.properties, (extract(epoch FROM t.created_at) * 1000)::bigint FROM vela_topic t WHERE t.name = %s

-- name: subscriptions_of
-- The subscriptions of the topic itself or of its partitions.
SELECT DISTINCT s.name FROM vela_topic p JOIN vela_topic t ON t.id = p.id OR t.parent_id = p.id
JOIN vela_subscription s ON s.topic_id = t.id WHERE p.name = %s ORDER BY s.name

-- name: subscription_properties
SELECT s.name, s.properties FROM vela_subscription s WHERE s.topic_id = %s AND s.properties <> '{}'

-- name: properties_of
SELECT s.properties FROM vela_topic p JOIN vela_topic t ON t.id = p.id OR t.parent_id = p.id
JOIN vela_subscription s ON s.topic_id = t.id
WHERE p.name = %s AND s.name = %s ORDER BY s.properties = '{}', t.partition LIMIT 1

-- name: set_subscription_properties
UPDATE vela_subscription s SET properties = %(properties)s FROM vela_topic t
WHERE t.id = s.topic_id AND t.name = %(topic)s AND s.name = %(subscription)s

-- name: offload
-- Two times: when a file of the topic last replaced rows, and when the job offload last failed for the topic, or for the
-- partitioned topic of this partition.
SELECT (extract(epoch FROM max(f.attached_at)) * 1000)::bigint, (
    SELECT (extract(epoch FROM max(r.ended_at)) * 1000)::bigint
    FROM vela_topic t LEFT JOIN vela_topic p ON p.id = t.parent_id
    JOIN vela_pipeline_run r ON r.job = 'offload' AND r.subject IN (t.name, p.name) AND r.state = 'failed'
    WHERE t.id = %(topic_id)s)
FROM vela_ledger_file f WHERE f.topic_id = %(topic_id)s

-- name: offload_run
-- The latest run of the job offload for the topic, or for the partitioned topic of this partition.
SELECT r.state, r.error
FROM vela_topic t LEFT JOIN vela_topic p ON p.id = t.parent_id
JOIN vela_pipeline_run r ON r.job = 'offload' AND r.subject IN (t.name, p.name)
WHERE t.id = %s ORDER BY r.id DESC LIMIT 1

-- name: compaction
SELECT state, last_error, removed_messages, duration_ms, (extract(epoch FROM succeeded_at) * 1000)::bigint,
       (extract(epoch FROM failed_at) * 1000)::bigint
FROM vela_compaction WHERE topic_id = %s
