-- The first page. Relies on the index vela_subscription_worst, so its cost does not grow with the number of subscriptions.

-- name: worst
SELECT s.id, s.name, t.id AS topic_id, t.name AS topic_name,
       greatest(coalesce(n.messages_in, 0) - u.acked_messages, 0) AS backlog_messages,
       u.state, u.state_since_ms, u.drain_s, n.message_rate_in, u.message_rate_acked
FROM (
    SELECT * FROM vela_subscription_summary
    WHERE state <= %(last_state)s ORDER BY state, state_since_ms, subscription_id LIMIT %(limit)s
) u
JOIN vela_subscription s ON s.id = u.subscription_id
JOIN vela_topic t ON t.id = s.topic_id
LEFT JOIN vela_topic_summary n ON n.topic_id = t.id
ORDER BY u.state, u.state_since_ms, u.subscription_id

-- name: states
SELECT v.state, c.subscriptions FROM generate_series(1, 7) AS v(state)
CROSS JOIN LATERAL (
    SELECT count(*) AS subscriptions FROM (
        SELECT FROM vela_subscription_summary u WHERE u.state = v.state LIMIT %(limit)s
    ) found
) c
ORDER BY v.state
