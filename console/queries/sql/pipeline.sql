-- Runs and schedules of the pipeline's jobs. Relies on the primary keys. A run keeps the name of its topic and outlives the
-- topic, so the namespace that a user must see is taken from the name: domain://tenant/namespace/topic.

-- name: runs
SELECT id, job, subject, topic_name, state, stages, error, who, reason, created_at, started_at, ended_at
FROM vela_pipeline_run
WHERE (%(before)s::bigint IS NULL OR id < %(before)s) AND (%(job)s = '' OR job = %(job)s)
  AND (%(state)s = '' OR state = %(state)s) AND (%(topic)s = '' OR topic_name = %(topic)s)
  AND (%(namespaces)s::text[] IS NULL OR split_part(topic_name, '/', 3) || '/' || split_part(topic_name, '/', 4) = ANY(%(namespaces)s)
       OR split_part(topic_name, '/', 3) = ANY(%(tenants)s::text[]))
ORDER BY id DESC LIMIT %(limit)s

-- name: run
SELECT r.id, r.job, r.subject, r.topic_name, r.options, r.state, r.stages, r.result, r.error, r.log, r.worker, r.who,
       r.reason, r.act_id, r.schedule_id, r.resumes_id, r.cancelled_by, r.created_at, r.started_at, r.heartbeat_at,
       r.ended_at
FROM vela_pipeline_run r WHERE r.id = %(id)s

-- name: schedule
SELECT id, job, subject, topic_name, options, every_minutes, next_at, who
FROM vela_pipeline_schedule WHERE id = %(id)s

-- name: schedules
SELECT id, job, subject, topic_name, options, every_minutes, next_at, who
FROM vela_pipeline_schedule
WHERE (%(namespaces)s::text[] IS NULL OR split_part(topic_name, '/', 3) || '/' || split_part(topic_name, '/', 4) = ANY(%(namespaces)s)
      OR split_part(topic_name, '/', 3) = ANY(%(tenants)s::text[]))
ORDER BY next_at, id LIMIT %(limit)s

-- name: worker
-- The last time at which a worker looked for a run, or reported on one.
SELECT greatest((SELECT at FROM vela_heartbeat WHERE name = 'pipeline'),
                (SELECT max(heartbeat_at) FROM vela_pipeline_run WHERE state = 'running')) AS at

-- name: insights
-- The latest hours of a topic.
SELECT hour_ms, messages, size_bytes, size_p50, size_p95, size_p99, size_most, delay_p50_ms, delay_p95_ms, delay_p99_ms,
       keyed_messages, keys, top_keys, letters, subscriptions, poison, computed_at
FROM vela_insight_hour WHERE topic_id = %(topic_id)s AND hour_ms >= %(from_ms)s ORDER BY hour_ms DESC
