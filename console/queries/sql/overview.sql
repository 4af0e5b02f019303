-- The first page. Relies on the index vela_subscription_worst, so its cost does not grow with the number of
-- subscriptions. `namespace_ids` is NULL for a user who sees every namespace: then the planner drops the joins that
-- only this filter needs. For other users the planner begins at the worst subscriptions or at the user's topics,
-- whichever are fewer.

-- name: connections
-- Connections to the whole server, because the limit is the server's. PostgreSQL hides the kind of other roles'
-- connections from a role without pg_read_all_stats: these count as clients' connections if they have a database.
SELECT (SELECT count(*) FROM pg_stat_activity
        WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend')::integer AS in_use,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
           - coalesce(current_setting('reserved_connections', true)::integer, 0) AS most,
       split_part(current_setting('server_version'), ' ', 1) AS version

-- name: worst
SELECT s.id, s.name, t.id AS topic_id, t.name AS topic_name,
       greatest(coalesce(n.messages_in, 0) - u.acked_messages, 0) AS backlog_messages,
       u.state, u.state_since_ms, u.drain_s, n.message_rate_in, u.message_rate_acked
FROM (
    SELECT u.* FROM vela_subscription_summary u
    LEFT JOIN vela_subscription s ON s.id = u.subscription_id LEFT JOIN vela_topic t ON t.id = s.topic_id
    WHERE u.state <= %(last_state)s AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
    ORDER BY u.state, u.state_since_ms, u.subscription_id LIMIT %(looked_at)s
) u
JOIN vela_subscription s ON s.id = u.subscription_id
JOIN vela_topic t ON t.id = s.topic_id
LEFT JOIN vela_topic_summary n ON n.topic_id = t.id
ORDER BY u.state, backlog_messages DESC, u.state_since_ms, u.subscription_id LIMIT %(limit)s

-- name: poisoned
-- Subscriptions whose first message was redelivered 3 times or more, the limit in
-- console/diagnosis/rules/messages/poison.py, without those that the page lists as the worst. Relies on the index vela_subscription_poisoned.
SELECT s.id, s.name, t.id AS topic_id, t.name AS topic_name,
       greatest(coalesce(n.messages_in, 0) - u.acked_messages, 0) AS backlog_messages,
       u.state, u.state_since_ms, u.drain_s, n.message_rate_in, u.message_rate_acked
FROM vela_subscription_obstacles o
JOIN vela_subscription_summary u ON u.subscription_id = o.subscription_id
JOIN vela_subscription s ON s.id = o.subscription_id
JOIN vela_topic t ON t.id = s.topic_id
LEFT JOIN vela_topic_summary n ON n.topic_id = t.id
WHERE o.first_redeliveries >= 3 AND NOT o.subscription_id = ANY(%(listed)s::bigint[])
  AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
ORDER BY o.first_redeliveries DESC, o.subscription_id LIMIT %(limit)s

-- name: states
SELECT v.state, c.subscriptions FROM generate_series(1, 7) AS v(state)
CROSS JOIN LATERAL (
    SELECT count(*) AS subscriptions FROM (
        SELECT FROM vela_subscription_summary u
        LEFT JOIN vela_subscription s ON s.id = u.subscription_id LEFT JOIN vela_topic t ON t.id = s.topic_id
        WHERE u.state = v.state AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
        LIMIT %(limit)s
    ) found
) c
ORDER BY v.state
