-- Surveys: the results of first passes of compactions, which Spark made. A job inserts them, and the topic's owner ends them.

-- name: ready
-- Oldest first. The name is NULL if the topic was deleted.
SELECT s.id, t.name, s.generation, s.begin_ledger, s.begin_entry, s.horizon_ledger, s.horizon_entry
FROM vela_compaction_survey s LEFT JOIN vela_topic t ON t.id = s.topic_id
WHERE s.state = 'ready' ORDER BY s.id LIMIT %(limit)s

-- name: keys
-- The latest message of each of these keys that the survey has.
SELECT key, ledger_id, entry_id, batch_index, is_deleted FROM vela_compaction_key
WHERE survey_id = %s AND key = ANY(%s::bytea[])

-- name: finish
UPDATE vela_compaction_survey SET state = %(state)s, error = %(error)s, kept_messages = %(kept_messages)s,
       removed_messages = %(removed_messages)s
WHERE id = %(survey_id)s AND state = 'ready'

-- name: abandon
-- Refuses surveys that no job will finish: their run has ended, or the topic was compacted since they began. A run that
-- continues another run has the same write id. A job that was started in a terminal has no run, so a survey that is not
-- finished after a day is refused too.
UPDATE vela_compaction_survey s SET state = 'refused',
       error = 'its run ended before it had read the topic, or the topic was compacted meanwhile: run the job again'
WHERE s.state = 'reading' AND (s.created_at < now() - interval '1 day'
    OR (SELECT bool_and(r.ended_at IS NOT NULL) FROM vela_pipeline_run r WHERE r.write_id = s.write_id)
    OR EXISTS (SELECT FROM vela_compaction c WHERE c.topic_id = s.topic_id AND c.generation <> s.generation))

-- name: sweep
-- Deletes some keys of surveys that have ended.
DELETE FROM vela_compaction_key WHERE ctid = ANY(ARRAY(
    SELECT k.ctid FROM vela_compaction_survey s JOIN vela_compaction_key k ON k.survey_id = s.id
    WHERE s.state IN ('done', 'refused') LIMIT %(limit)s))

-- name: forget
-- Deletes surveys that have ended, are older than a week, and have no keys any more.
DELETE FROM vela_compaction_survey s
WHERE s.state IN ('done', 'refused') AND s.created_at < now() - interval '7 days'
  AND NOT EXISTS (SELECT FROM vela_compaction_key k WHERE k.survey_id = s.id)
