-- Alert rules and their alerts. `namespace_ids` is NULL for a user who sees every namespace; only such a user sees
-- alerts about the broker. The address of a webhook is never read here.

-- name: rules
SELECT r.id, r.name, r.measure, r.threshold, r.within_ms, r.for_ms, r.namespaces, r.topics, r.subscriptions, r.severity,
       r.webhook_url <> '' AS has_webhook, r.email, r.silent_until, r.who, r.evaluated_ms,
       n.created_at AS told_at, n.sent_at, n.error, n.next_at, n.attempts,
       (SELECT count(*) FROM vela_alert_firing f
        WHERE f.rule_id = r.id AND f.cleared_ms IS NULL AND f.fired_ms IS NOT NULL) AS firing
FROM vela_alert_rule r
LEFT JOIN LATERAL (
    SELECT created_at, sent_at, error, next_at, attempts FROM vela_alert_notification
    WHERE rule_id = r.id ORDER BY id DESC LIMIT 1
) n ON true
WHERE %(id)s::bigint IS NULL OR r.id = %(id)s
ORDER BY r.name LIMIT %(limit)s

-- name: firing
SELECT id, rule_id, rule_name, severity, measure, topic_name, subscription_name, value, over_since_ms, fired_ms, cleared_ms
FROM vela_alert_firing
WHERE cleared_ms IS NULL AND fired_ms IS NOT NULL AND (%(before)s::bigint IS NULL OR id < %(before)s)
  AND (%(namespace_ids)s::bigint[] IS NULL OR namespace_id = ANY(%(namespace_ids)s))
ORDER BY id DESC LIMIT %(limit)s

-- name: history
SELECT id, rule_id, rule_name, severity, measure, topic_name, subscription_name, value, over_since_ms, fired_ms, cleared_ms
FROM vela_alert_firing
WHERE cleared_ms IS NOT NULL AND fired_ms IS NOT NULL
  AND (%(before)s::bigint IS NULL OR (cleared_ms, id) < (%(before_ms)s, %(before)s))
  AND (%(namespace_ids)s::bigint[] IS NULL OR namespace_id = ANY(%(namespace_ids)s))
ORDER BY cleared_ms DESC, id DESC LIMIT %(limit)s
