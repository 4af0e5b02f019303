-- The stored data about one moment in the past. `subscription_id` 0 = the topic itself.

-- name: last_before
-- The last point that ended at or before `before_ms`. Each part steps backwards through one resolution, a bucket at a
-- time, as far as points of that resolution are kept by default. No index finds the points of a topic, but a lookup
-- by (at_ms, topic_id, subscription_id) takes microseconds.
SELECT l.backlog, l.stored_bytes FROM (
    (SELECT p.at_ms + 10000 AS until_ms, p.backlog, p.stored_bytes
     FROM generate_series(%(before_ms)s::bigint - %(before_ms)s::bigint %% 10000 - 10000,
                          %(before_ms)s::bigint - 720 * 10000::bigint, -10000) AS g(at_ms) CROSS JOIN LATERAL (
         SELECT at_ms, backlog, stored_bytes FROM vela_stats_point_10s
         WHERE at_ms = g.at_ms AND topic_id = %(topic_id)s AND subscription_id = %(subscription_id)s OFFSET 0
     ) p LIMIT 1)
    UNION ALL
    (SELECT p.at_ms + 60000 AS until_ms, p.backlog, p.stored_bytes
     FROM generate_series(%(before_ms)s::bigint - %(before_ms)s::bigint %% 60000 - 60000,
                          %(before_ms)s::bigint - 1440 * 60000::bigint, -60000) AS g(at_ms) CROSS JOIN LATERAL (
         SELECT at_ms, backlog, stored_bytes FROM vela_stats_point_60s
         WHERE at_ms = g.at_ms AND topic_id = %(topic_id)s AND subscription_id = %(subscription_id)s OFFSET 0
     ) p LIMIT 1)
    UNION ALL
    (SELECT p.at_ms + 600000 AS until_ms, p.backlog, p.stored_bytes
     FROM generate_series(%(before_ms)s::bigint - %(before_ms)s::bigint %% 600000 - 600000,
                          %(before_ms)s::bigint - 1008 * 600000::bigint, -600000) AS g(at_ms) CROSS JOIN LATERAL (
         SELECT at_ms, backlog, stored_bytes FROM vela_stats_point_600s
         WHERE at_ms = g.at_ms AND topic_id = %(topic_id)s AND subscription_id = %(subscription_id)s OFFSET 0
     ) p LIMIT 1)
    UNION ALL
    (SELECT p.at_ms + 3600000 AS until_ms, p.backlog, p.stored_bytes
     FROM generate_series(%(before_ms)s::bigint - %(before_ms)s::bigint %% 3600000 - 3600000,
                          %(before_ms)s::bigint - 2160 * 3600000::bigint, -3600000) AS g(at_ms) CROSS JOIN LATERAL (
         SELECT at_ms, backlog, stored_bytes FROM vela_stats_point_3600s
         WHERE at_ms = g.at_ms AND topic_id = %(topic_id)s AND subscription_id = %(subscription_id)s OFFSET 0
     ) p LIMIT 1)
) l ORDER BY l.until_ms DESC LIMIT 1

-- name: alerts
-- The alerts that were firing in that time: of a topic and its subscriptions, or of a subscription and its topic.
SELECT rule_id, rule_name, severity, topic_name, subscription_name, fired_ms, cleared_ms
FROM vela_alert_firing
WHERE topic_id = %(topic_id)s AND (%(subscription_id)s = 0 OR subscription_id IN (0, %(subscription_id)s))
  AND fired_ms < %(until_ms)s AND (cleared_ms IS NULL OR cleared_ms > %(from_ms)s)
ORDER BY fired_ms LIMIT 50

-- name: paused_by
-- The last act, up to that moment, that paused or resumed the subscription. It need not have the highest id: a plan that
-- was made earlier may be applied later.
SELECT id, kind, who FROM vela_act
WHERE subscription_id = %(subscription_id)s AND state = 'applied' AND kind IN ('pause', 'resume')
  AND finished_at <= %(at)s
ORDER BY finished_at DESC, id DESC LIMIT 1
