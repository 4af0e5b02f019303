-- Alerts. A round of Celery's task runs each statement at most once, whatever the number of rules.

-- name: matches
-- The subjects that are over each rule's limit, at most `limit` for one rule, the worst first. The rules come as JSON, so
-- that the console can ask about a rule that is not stored yet. Each part uses an index on its measure, except for stored
-- bytes and for the points of the last minute, which have no such index.
WITH rules AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(rules)s::jsonb)
        AS r(rule_id bigint, measure text, threshold bigint, within_ms bigint, topics text, subscriptions text)
)
SELECT r.rule_id, m.* FROM rules r CROSS JOIN LATERAL (
    SELECT t.id AS topic_id, s.id AS subscription_id, t.namespace_id, t.name AS topic_name, s.name AS subscription_name,
           n.messages_in - u.acked_messages AS value, %(now_ms)s::bigint AS since_ms
    FROM vela_topic_summary n
    JOIN vela_topic t ON t.id = n.topic_id
    JOIN vela_subscription s ON s.topic_id = t.id
    JOIN vela_subscription_summary u ON u.subscription_id = s.id
    WHERE n.max_backlog_messages > r.threshold AND n.messages_in - u.acked_messages > r.threshold
      AND t.name ~ r.topics AND s.name ~ r.subscriptions
    ORDER BY n.max_backlog_messages DESC, value DESC, s.id LIMIT %(limit)s
) m WHERE r.measure = 'backlog'
UNION ALL
SELECT r.rule_id, m.* FROM rules r CROSS JOIN LATERAL (
    SELECT c.topic_id, c.subscription_id, c.namespace_id, c.topic_name, c.subscription_name,
           %(now_ms)s::bigint - c.append_ms AS value, %(now_ms)s::bigint AS since_ms
    FROM (
        SELECT f.*, CASE WHEN f.file_name IS NULL THEN vela_append_ms_v1(f.segment_id, f.ledger_id, f.entry_id)
                         WHEN f.entry_id = 0 THEN f.first_append_ms ELSE f.last_append_ms END AS append_ms FROM (
            SELECT t.id AS topic_id, s.id AS subscription_id, t.namespace_id, t.name AS topic_name,
                   s.name AS subscription_name, l.segment_id, l.file_name, l.first_append_ms, l.last_append_ms, l.ledger_id, l.entry_id
            FROM vela_topic_summary n
            JOIN vela_topic t ON t.id = n.topic_id
            JOIN vela_subscription s ON s.topic_id = t.id
            JOIN vela_cursor c ON c.subscription_id = s.id
            CROSS JOIN LATERAL (
                SELECT l.id AS ledger_id, l.segment_id, l.file_name, l.first_append_ms, l.last_append_ms,
                       CASE WHEN l.id = c.mark_delete_ledger THEN c.mark_delete_entry + 1 ELSE 0 END AS entry_id
                FROM vela_ledger l
                WHERE l.topic_id = t.id AND l.id >= c.mark_delete_ledger AND (l.segment_id IS NOT NULL OR l.file_name IS NOT NULL)
                  AND (l.state = 'open' OR l.entries > CASE WHEN l.id > c.mark_delete_ledger THEN 0 ELSE c.mark_delete_entry + 1 END)
                ORDER BY l.id LIMIT 1
            ) l
            WHERE n.max_backlog_messages > 0 AND n.messages_in > c.acked_messages
              AND t.name ~ r.topics AND s.name ~ r.subscriptions
            ORDER BY n.max_backlog_messages DESC, s.id LIMIT %(looked_at)s
        ) f
    ) c
    WHERE %(now_ms)s::bigint - c.append_ms > r.threshold ORDER BY value DESC, c.subscription_id LIMIT %(limit)s
) m WHERE r.measure = 'age'
UNION ALL
SELECT r.rule_id, m.* FROM rules r CROSS JOIN LATERAL (
    SELECT t.id, s.id, t.namespace_id, t.name, s.name, %(now_ms)s::bigint - u.state_since_ms, u.state_since_ms
    FROM vela_subscription_summary u
    JOIN vela_subscription s ON s.id = u.subscription_id
    JOIN vela_topic t ON t.id = s.topic_id
    WHERE u.state = ANY(CASE r.measure WHEN 'stuck' THEN '{1}' ELSE '{1,2}' END::smallint[])
      AND t.name ~ r.topics AND s.name ~ r.subscriptions
    ORDER BY u.state, u.state_since_ms, s.id LIMIT %(limit)s
) m WHERE r.measure IN ('stuck', 'behind')
UNION ALL
SELECT r.rule_id, m.* FROM rules r CROSS JOIN LATERAL (
    SELECT t.id, s.id, t.namespace_id, t.name, s.name, %(now_ms)s::bigint - b.since_ms, b.since_ms
    FROM vela_subscription_summary u
    JOIN vela_subscription s ON s.id = u.subscription_id
    JOIN vela_topic t ON t.id = s.topic_id
    CROSS JOIN LATERAL (
        SELECT greatest(u.last_used_ms, (extract(epoch FROM s.created_at) * 1000)::bigint) AS since_ms
    ) b
    WHERE u.consumers = 0 AND t.name ~ r.topics AND s.name ~ r.subscriptions
    ORDER BY u.last_used_ms, s.id LIMIT %(limit)s
) m WHERE r.measure = 'no_consumer'
UNION ALL
-- Looks up only topics that got a letter in this time. Counts in the points of minutes as far as minutes are rolled up, then
-- in the points of 10 seconds.
SELECT r.rule_id, m.* FROM rules r CROSS JOIN LATERAL (
    SELECT t.id, 0::bigint, t.namespace_id, t.name, '', g.messages, %(now_ms)s::bigint
    FROM vela_topic t
    JOIN vela_topic_summary n ON n.topic_id = t.id
    CROSS JOIN (
        SELECT greatest(coalesce(max(until_ms), 0), %(now_ms)s::bigint - 7200000) / 60000 * 60000 AS until_ms
        FROM vela_stats_progress WHERE resolution_s = 60
    ) d
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(p.messages_in), 0)::bigint AS messages FROM (
            SELECT q.messages_in
            FROM generate_series((%(now_ms)s::bigint - r.within_ms) / 60000 * 60000 + 60000, d.until_ms - 1, 60000) AS g(at_ms)
            CROSS JOIN LATERAL (
                SELECT messages_in FROM vela_stats_point_60s
                WHERE at_ms = g.at_ms AND topic_id = t.id AND subscription_id = 0 OFFSET 0
            ) q
            UNION ALL
            SELECT q.messages_in
            FROM generate_series(greatest(d.until_ms, (%(now_ms)s::bigint - r.within_ms) / 10000 * 10000),
                                 %(now_ms)s::bigint, 10000) AS g(at_ms)
            CROSS JOIN LATERAL (
                SELECT messages_in FROM vela_stats_point_10s
                WHERE at_ms = g.at_ms AND topic_id = t.id AND subscription_id = 0 OFFSET 0
            ) q
        ) p
    ) g
    WHERE t.partitions = 0 AND (t.name LIKE '%%-DLQ' OR t.name ~ '-DLQ-partition-[0-9]+$')
      AND n.last_append_ms >= %(now_ms)s::bigint - r.within_ms AND g.messages > r.threshold AND t.name ~ r.topics
    ORDER BY g.messages DESC, t.id LIMIT %(limit)s
) m WHERE r.measure = 'dead_letters'
UNION ALL
SELECT r.rule_id, m.* FROM rules r CROSS JOIN LATERAL (
    SELECT t.id, s.id, t.namespace_id, t.name, s.name, p.rate, %(now_ms)s::bigint
    FROM (
        SELECT subscription_id, sum(messages_redelivered)::bigint / 60 AS rate FROM vela_stats_point_10s
        WHERE at_ms >= %(now_ms)s::bigint - 70000 AND subscription_id <> 0
        GROUP BY subscription_id HAVING sum(messages_redelivered) / 60 > r.threshold
    ) p
    JOIN vela_subscription s ON s.id = p.subscription_id
    JOIN vela_topic t ON t.id = s.topic_id
    WHERE t.name ~ r.topics AND s.name ~ r.subscriptions
    ORDER BY p.rate DESC, s.id LIMIT %(limit)s
) m WHERE r.measure = 'redeliveries'
UNION ALL
SELECT r.rule_id, m.* FROM rules r CROSS JOIN LATERAL (
    SELECT t.id, 0::bigint, t.namespace_id, t.name, '', n.stored_bytes, %(now_ms)s::bigint
    FROM vela_topic_summary n JOIN vela_topic t ON t.id = n.topic_id
    WHERE n.stored_bytes > r.threshold AND t.name ~ r.topics
    ORDER BY n.stored_bytes DESC, t.id LIMIT %(limit)s
) m WHERE r.measure = 'stored'
UNION ALL
-- A running broker updates its row every second.
SELECT r.rule_id, 0, 0, NULL, '', '', %(now_ms)s::bigint - b.seen_ms, b.seen_ms
FROM rules r CROSS JOIN (
    SELECT coalesce(max((extract(epoch FROM seen_at) * 1000)::bigint), 0) AS seen_ms FROM vela_broker
) b WHERE r.measure = 'broker' AND %(now_ms)s::bigint - b.seen_ms > 5000

-- name: lock
-- One round at a time.
SELECT pg_try_advisory_xact_lock(1447382081, 1)

-- name: rules
SELECT id, name, measure, threshold, within_ms, for_ms, namespaces, topics, subscriptions, severity,
       webhook_url <> '' AS has_webhook, email <> '' AS has_email,
       (extract(epoch FROM silent_until) * 1000)::bigint AS silent_until_ms, evaluated_ms, notified_ms
FROM vela_alert_rule ORDER BY id

-- name: open
-- Alerts that wait or fire, and those that cleared in the last 24 hours and were not notified as cleared.
SELECT id, rule_id, topic_id, subscription_id, topic_name, subscription_name, value, over_since_ms, fired_ms, below_since_ms,
       cleared_ms, is_told
FROM vela_alert_firing
WHERE rule_id IS NOT NULL AND (cleared_ms IS NULL OR NOT is_clear_told AND cleared_ms > %(now_ms)s::bigint - 86400000)
ORDER BY id

-- name: insert
INSERT INTO vela_alert_firing (rule_id, rule_name, severity, measure, topic_id, subscription_id, namespace_id, topic_name,
                               subscription_name, value, over_since_ms, fired_ms, is_told, is_clear_told)
SELECT n.rule_id, r.name, r.severity, r.measure, n.topic_id, n.subscription_id, n.namespace_id, n.topic_name,
       n.subscription_name, n.value, n.over_since_ms, n.fired_ms, n.is_told, false
FROM jsonb_to_recordset(%(rows)s::jsonb) AS n(rule_id bigint, topic_id bigint, subscription_id bigint, namespace_id bigint,
     topic_name text, subscription_name text, value bigint, over_since_ms bigint, fired_ms bigint, is_told boolean)
JOIN vela_alert_rule r ON r.id = n.rule_id
ON CONFLICT DO NOTHING

-- name: update
UPDATE vela_alert_firing f SET value = n.value, over_since_ms = n.over_since_ms, fired_ms = n.fired_ms,
       below_since_ms = n.below_since_ms, cleared_ms = n.cleared_ms, is_told = n.is_told, is_clear_told = n.is_clear_told
FROM jsonb_to_recordset(%(rows)s::jsonb) AS n(id bigint, value bigint, over_since_ms bigint, fired_ms bigint,
     below_since_ms bigint, cleared_ms bigint, is_told boolean, is_clear_told boolean)
WHERE f.id = n.id AND (f.cleared_ms IS NULL OR n.is_clear_told)

-- name: delete
DELETE FROM vela_alert_firing WHERE id = ANY(%(ids)s::bigint[]) AND fired_ms IS NULL

-- name: notify
INSERT INTO vela_alert_notification (rule_id, channel, body)
SELECT n.rule_id, n.channel, n.body FROM jsonb_to_recordset(%(rows)s::jsonb) AS n(rule_id bigint, channel text, body jsonb)

-- name: evaluated
UPDATE vela_alert_rule SET evaluated_ms = %(now_ms)s,
       notified_ms = CASE WHEN id = ANY(%(notified)s::bigint[]) THEN %(now_ms)s ELSE notified_ms END
WHERE id = ANY(%(ids)s::bigint[])

-- name: claim
-- Taking a notification puts its next attempt off, so a sender that dies in between only causes a delay.
UPDATE vela_alert_notification n SET attempts = n.attempts + 1, next_at = now() + make_interval(secs => %(lease_s)s)
FROM vela_alert_rule r
WHERE r.id = n.rule_id AND n.id = (SELECT id FROM vela_alert_notification WHERE next_at <= now()
                                   ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING n.id, n.channel, n.body, n.attempts, r.webhook_url, r.email

-- name: sent
UPDATE vela_alert_notification SET sent_at = now(), next_at = NULL, error = '' WHERE id = %(id)s

-- name: failed
UPDATE vela_alert_notification SET error = %(error)s, next_at = now() + make_interval(secs => %(retry_s)s::float8)
WHERE id = %(id)s

-- name: trim_firings
DELETE FROM vela_alert_firing WHERE id IN (
    SELECT id FROM vela_alert_firing WHERE cleared_ms < %(before_ms)s ORDER BY cleared_ms LIMIT 1000)

-- name: trim_notifications
DELETE FROM vela_alert_notification WHERE id IN (
    SELECT id FROM vela_alert_notification WHERE created_at < to_timestamp(%(before_ms)s / 1000.0) ORDER BY id LIMIT 1000)
