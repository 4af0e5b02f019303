-- Topics that are not loaded, and that may be unused or have unused subscriptions. The owner loads them and decides
-- from memory.

-- name: idle_topics
-- A value in a document that is not a number counts as not set. It can only come from a manual change of the table.
WITH d AS (
    SELECT t.id, t.name, n.policies || coalesce(p.policies, t.policies) AS doc
    FROM vela_topic t JOIN vela_namespace n ON n.id = t.namespace_id LEFT JOIN vela_topic p ON p.id = t.parent_id
    WHERE t.partitions = 0 AND (n.policies || coalesce(p.policies, t.policies)) ?| ARRAY['subscription_expiry_ms',
          'delete_inactive_topics'] AND t.id > %(after)s AND t.id <> ALL(%(known)s::bigint[])
), v AS (
    SELECT d.id, d.name, d.doc -> 'delete_inactive_topics' = 'true'::jsonb AS is_deleted,
           coalesce(d.doc ->> 'inactive_topic_mode', %(mode)s) AS mode,
           CASE WHEN jsonb_typeof(d.doc -> 'subscription_expiry_ms') = 'number'
                THEN (d.doc ->> 'subscription_expiry_ms')::numeric ELSE 0 END AS expiry_ms,
           CASE WHEN jsonb_typeof(d.doc -> 'inactive_topic_ms') = 'number'
                THEN (d.doc ->> 'inactive_topic_ms')::numeric ELSE %(inactive_topic_ms)s END AS inactive_ms
    FROM d
)
SELECT v.id, v.name FROM v LEFT JOIN vela_topic_summary y ON y.topic_id = v.id
WHERE (v.is_deleted AND coalesce(y.last_used_ms, 0) < %(now_ms)s - v.inactive_ms AND NOT EXISTS (
        SELECT FROM vela_subscription s
        WHERE s.topic_id = v.id AND (v.mode = %(mode)s OR y.max_backlog_messages > 0)))
   OR (v.expiry_ms > 0 AND EXISTS (
        SELECT FROM vela_subscription s LEFT JOIN vela_subscription_summary z ON z.subscription_id = s.id
        WHERE s.topic_id = v.id AND coalesce(z.last_used_ms, 0) < %(now_ms)s - v.expiry_ms))
ORDER BY v.id LIMIT %(limit)s
