-- The stored points of topics and subscriptions. The tables are indexed by time, topic and subscription. A chart looks up
-- each bucket of its window: OFFSET 0 keeps the planner from reading the points of all topics in between.

-- name: progress
SELECT resolution_s, until_ms FROM vela_stats_progress

-- name: points
SELECT p.* FROM unnest(%(topic_ids)s::bigint[], %(subscription_ids)s::bigint[]) AS w(topic_id, subscription_id)
CROSS JOIN generate_series(%(from_10)s::bigint, %(to_10)s::bigint - 1, 10000) AS g(at_ms) CROSS JOIN LATERAL (
    SELECT at_ms, topic_id, subscription_id, messages_in, bytes_in, messages_out, messages_acked, messages_redelivered,
           backlog_before, backlog, backlog_most, stored_bytes, ack_latencies
    FROM vela_stats_point_10s
    WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = w.subscription_id OFFSET 0
) p
UNION ALL
SELECT p.* FROM unnest(%(topic_ids)s::bigint[], %(subscription_ids)s::bigint[]) AS w(topic_id, subscription_id)
CROSS JOIN generate_series(%(from_60)s::bigint, %(to_60)s::bigint - 1, 60000) AS g(at_ms) CROSS JOIN LATERAL (
    SELECT at_ms, topic_id, subscription_id, messages_in, bytes_in, messages_out, messages_acked, messages_redelivered,
           backlog_before, backlog, backlog_most, stored_bytes, ack_latencies
    FROM vela_stats_point_60s
    WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = w.subscription_id OFFSET 0
) p
UNION ALL
SELECT p.* FROM unnest(%(topic_ids)s::bigint[], %(subscription_ids)s::bigint[]) AS w(topic_id, subscription_id)
CROSS JOIN generate_series(%(from_600)s::bigint, %(to_600)s::bigint - 1, 600000) AS g(at_ms) CROSS JOIN LATERAL (
    SELECT at_ms, topic_id, subscription_id, messages_in, bytes_in, messages_out, messages_acked, messages_redelivered,
           backlog_before, backlog, backlog_most, stored_bytes, ack_latencies
    FROM vela_stats_point_600s
    WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = w.subscription_id OFFSET 0
) p
UNION ALL
SELECT p.* FROM unnest(%(topic_ids)s::bigint[], %(subscription_ids)s::bigint[]) AS w(topic_id, subscription_id)
CROSS JOIN generate_series(%(from_3600)s::bigint, %(to_3600)s::bigint - 1, 3600000) AS g(at_ms) CROSS JOIN LATERAL (
    SELECT at_ms, topic_id, subscription_id, messages_in, bytes_in, messages_out, messages_acked, messages_redelivered,
           backlog_before, backlog, backlog_most, stored_bytes, ack_latencies
    FROM vela_stats_point_3600s
    WHERE at_ms = g.at_ms AND topic_id = w.topic_id AND subscription_id = w.subscription_id OFFSET 0
) p

-- name: backlogs
-- The backlog of the last hour for the rows of a list. A row that was created in that hour has a point without
-- numbers in the minute of its creation, because nothing is known about it before. A point of topic 0 says that
-- minutes are missing: none has been rolled up since `rolled_ms`.
-- One scan of the index finds all topics (subscription 0), and one the subscriptions of each topic. From PostgreSQL 17
-- on, a lookup for each row and minute takes three to ten times as long.
SELECT p.* FROM (
    SELECT array_agg(topic_id) AS topic_ids, array_agg(subscription_id) AS subscription_ids
    FROM unnest(%(topic_ids)s::bigint[], %(subscription_ids)s::bigint[]) AS w(topic_id, subscription_id)
    GROUP BY CASE WHEN subscription_id <> 0 THEN topic_id END
) w
CROSS JOIN LATERAL (
    SELECT at_ms, topic_id, subscription_id, backlog_before, backlog, backlog_most
    FROM vela_stats_point_60s
    WHERE at_ms = ANY(ARRAY(SELECT generate_series(%(from_ms)s::bigint, %(to_ms)s::bigint - 1, 60000)))
      AND topic_id = ANY(w.topic_ids) AND subscription_id = ANY(w.subscription_ids) OFFSET 0
) p
UNION ALL
SELECT c.at_ms - c.at_ms %% 60000, c.topic_id, c.subscription_id, NULL, NULL, NULL
FROM (
    SELECT (extract(epoch FROM coalesce(s.created_at, t.created_at)) * 1000)::bigint AS at_ms, w.topic_id, w.subscription_id
    FROM unnest(%(topic_ids)s::bigint[], %(subscription_ids)s::bigint[]) AS w(topic_id, subscription_id)
    JOIN vela_topic t ON t.id = w.topic_id LEFT JOIN vela_subscription s ON s.id = w.subscription_id
) c
WHERE c.at_ms >= %(from_ms)s::bigint
UNION ALL
SELECT %(to_ms)s::bigint, 0, 0, NULL, NULL, NULL
WHERE NOT EXISTS (SELECT FROM vela_stats_progress WHERE resolution_s = 60 AND until_ms >= %(rolled_ms)s::bigint)

-- name: acts
-- Applied acts in a window, newest first, without commits, which clients make. topic_id 0 = all topics. subscription_id
-- 0 = all subscriptions of the topic, or those with the name `subscription` if it is given. Acts on a topic itself
-- concern each of its subscriptions. Acts on a deleted subscription have lost its id, but not its name, and do not
-- concern the others. Only the newest 200 acts before the end are looked at. An act on several partitions is one row,
-- except in the history of one partition, which shows its part of the act.
SELECT id, kind, parameters, undo_of_id, topic_name, subscription_name, who, finished_at
FROM (
    SELECT * FROM vela_act a
    WHERE a.state = 'applied' AND a.kind <> 'commit' AND (a.part_of_id IS NULL OR a.topic_id = %(topic_id)s)
      AND (%(topic_id)s = 0 OR a.topic_id IN (SELECT id FROM vela_topic WHERE id = %(topic_id)s OR parent_id = %(topic_id)s))
      AND (%(subscription_id)s = 0 OR a.subscription_id = %(subscription_id)s
           OR (a.subscription_id IS NULL AND a.subscription_name = ''))
      AND (%(subscription)s::text IS NULL OR a.subscription_name IN (%(subscription)s::text, ''))
      AND (%(until_at)s::timestamptz IS NULL OR a.finished_at < %(until_at)s)
    ORDER BY a.id DESC LIMIT 200
) a
WHERE finished_at >= %(from_at)s ORDER BY finished_at DESC LIMIT %(limit)s
