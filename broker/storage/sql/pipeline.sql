-- Runs of the pipeline's jobs. Acts, schedules and policies insert runs, a worker executes them, and one of Celery's tasks
-- ends the runs of dead workers.
--
-- Because of the index vela_pipeline_run_alone, at most one run of a job and subject waits or runs at a time.

-- name: unended
-- The run of a job and subject that has not ended, and whether it belongs to this act.
SELECT id, state, act_id IS NOT DISTINCT FROM %(act_id)s FROM vela_pipeline_run
WHERE job = %(job)s AND subject = %(subject)s AND state IN ('waiting', 'running')

-- name: request
-- An act that is repeated finds the run that it inserted before.
INSERT INTO vela_pipeline_run (job, subject, topic_name, options, write_id, pinned, state, stages, error, log, worker, who,
                               reason, act_id, resumes_id, cancelled_by, created_at)
VALUES (%(job)s, %(subject)s, %(topic)s, %(options)s, %(write_id)s, %(pinned)s, 'waiting', '[]', '', '', '', %(who)s, '',
        %(act_id)s, %(resumes_id)s, '', now())
ON CONFLICT (act_id) DO NOTHING

-- name: of_act
SELECT id FROM vela_pipeline_run WHERE act_id = %s

-- name: find
SELECT id, job, subject, topic_name, options, write_id, pinned, state, cancelled_by FROM vela_pipeline_run WHERE id = %s

-- name: cancel
-- A run that waits ends at once. If a worker has begun the run, the worker ends it.
UPDATE vela_pipeline_run SET cancelled_by = %(who)s, error = 'cancelled by ' || %(who)s,
       state = CASE state WHEN 'waiting' THEN 'cancelled' ELSE state END,
       ended_at = CASE state WHEN 'waiting' THEN now() END
WHERE id = %(id)s AND state IN ('waiting', 'running') AND cancelled_by = ''

-- name: schedule
-- If the new interval is shorter, it begins now: the next run does not wait for the end of the old interval.
INSERT INTO vela_pipeline_schedule (job, subject, topic_name, options, every_minutes, next_at, who, created_at)
VALUES (%(job)s, %(subject)s, %(topic)s, %(options)s, %(every_minutes)s, now(), %(who)s, now())
ON CONFLICT (job, subject) DO UPDATE
SET options = EXCLUDED.options, every_minutes = EXCLUDED.every_minutes, who = EXCLUDED.who,
    next_at = least(vela_pipeline_schedule.next_at, now() + make_interval(mins => EXCLUDED.every_minutes))

-- name: find_schedule
SELECT id, job, subject, topic_name, every_minutes FROM vela_pipeline_schedule WHERE id = %s

-- name: unschedule
DELETE FROM vela_pipeline_schedule WHERE id = %s

-- name: request_due
-- A schedule that was late runs once, not once for each time that it missed. A schedule whose last run has not ended waits
-- for its next time.
WITH due AS (
    UPDATE vela_pipeline_schedule
    SET next_at = next_at + make_interval(mins => every_minutes)
                  * (1 + floor(extract(epoch FROM now() - next_at) / (60 * every_minutes)))::integer
    WHERE next_at <= now()
    RETURNING id, job, subject, topic_name, options, who
)
INSERT INTO vela_pipeline_run (job, subject, topic_name, options, write_id, pinned, state, stages, error, log, worker, who,
                               reason, schedule_id, cancelled_by, created_at)
SELECT job, subject, topic_name, options, '', '{}', 'waiting', '[]', '', '', '', who, 'schedule', id, '', now() FROM due
ON CONFLICT DO NOTHING RETURNING id

-- name: request_offloads
-- Inserts a run of the job offload for each topic whose policies ask to offload one of its ledgers. A partitioned topic gets
-- one run for all its partitions. The policies become the job's options, so the job finds the same ledgers as this statement.
-- Runs of one topic begin at least ten minutes apart, so that a run that fails, or finds a ledger trimmed, is not repeated
-- all the time.
WITH limits AS MATERIALIZED (
    SELECT t.id AS topic_id, coalesce(parent.name, t.name) AS name,
           ceil(nullif(coalesce(d.topic -> 'offload_after_ms', d.namespace -> 'offload_after_ms')::bigint, -1) / 60000.0)::bigint
               AS older_than_minutes,
           nullif(coalesce(d.topic -> 'offload_threshold_bytes', d.namespace -> 'offload_threshold_bytes')::bigint, -1)
               AS keep_bytes
    FROM vela_topic t
    JOIN vela_namespace n ON n.id = t.namespace_id
    LEFT JOIN vela_topic parent ON parent.id = t.parent_id
    CROSS JOIN LATERAL (SELECT coalesce(parent.policies, t.policies) AS topic, n.policies AS namespace) d
    WHERE d.topic ?| ARRAY['offload_after_ms', 'offload_threshold_bytes']
       OR d.namespace ?| ARRAY['offload_after_ms', 'offload_threshold_bytes']
), due AS (
    SELECT DISTINCT m.name, m.older_than_minutes, m.keep_bytes
    FROM limits m
    CROSS JOIN LATERAL (
        SELECT l.last_append_ms, sum(l.size_bytes) OVER (ORDER BY l.id DESC) AS bytes_from_here
        FROM vela_ledger l
        WHERE l.topic_id = m.topic_id AND l.state = 'sealed' AND l.entries > 0 AND l.file_name IS NULL
          AND NOT EXISTS (SELECT FROM vela_ledger_file f WHERE f.ledger_id = l.id AND f.state = 'written')
    ) l
    WHERE l.last_append_ms < extract(epoch FROM now()) * 1000 - m.older_than_minutes * 60000
       OR l.bytes_from_here > m.keep_bytes
)
INSERT INTO vela_pipeline_run (job, subject, topic_name, options, write_id, pinned, state, stages, error, log, worker, who,
                               reason, cancelled_by, created_at)
SELECT 'offload', due.name, due.name,
       jsonb_build_object('older_than_minutes', coalesce(due.older_than_minutes::text, ''),
                          'keep_bytes', coalesce(due.keep_bytes::text, '')),
       '', '{}', 'waiting', '[]', '', '', '', 'policies', 'policy', '', now()
FROM due
WHERE NOT EXISTS (
    SELECT FROM vela_pipeline_run r
    WHERE r.job = 'offload' AND r.subject = due.name AND r.created_at > now() - interval '10 min')
ON CONFLICT DO NOTHING

-- name: lock
LOCK TABLE vela_pipeline_run IN SHARE ROW EXCLUSIVE MODE

-- name: look
-- Records that a worker looked for runs. The commit does not wait for the disk.
INSERT INTO vela_heartbeat (name, at) VALUES ('pipeline', now()) ON CONFLICT (name) DO UPDATE SET at = EXCLUDED.at
RETURNING set_config('synchronous_commit', 'off', true)

-- name: claim
UPDATE vela_pipeline_run r SET state = 'running', worker = %(worker)s, started_at = now(), heartbeat_at = now(),
       write_id = CASE r.write_id WHEN '' THEN 'run-' || r.id ELSE r.write_id END
WHERE r.id = (SELECT min(id) FROM vela_pipeline_run WHERE state = 'waiting')
  AND (SELECT count(*) FROM vela_pipeline_run WHERE state = 'running') < %(most)s
RETURNING id, job, topic_name, options, write_id, pinned

-- name: beat
-- No row = the run was ended meanwhile, because its worker was silent for too long. A log that is NULL has not changed: the
-- row keeps the old log, and PostgreSQL does not write it again.
UPDATE vela_pipeline_run SET heartbeat_at = now(), stages = %(stages)s, pinned = %(pinned)s,
       log = coalesce(%(log)s::text, log)
WHERE id = %(id)s AND state = 'running' AND worker = %(worker)s
RETURNING cancelled_by

-- name: end
UPDATE vela_pipeline_run SET state = %(state)s, result = %(result)s, error = %(error)s, stages = %(stages)s,
       pinned = %(pinned)s, log = coalesce(%(log)s::text, log), ended_at = now()
WHERE id = %(id)s AND state = 'running' AND worker = %(worker)s

-- name: end_silent
UPDATE vela_pipeline_run SET state = 'failed', ended_at = now(),
       error = 'its worker ' || worker || ' stopped while the job ran: start the job again, or continue it'
WHERE state = 'running' AND heartbeat_at < now() - make_interval(secs => %(silent_s)s)

-- name: trim_insights
DELETE FROM vela_insight_hour WHERE hour_ms < %s

-- name: trim
DELETE FROM vela_pipeline_run WHERE ended_at < now() - make_interval(days => %(keep_days)s)
