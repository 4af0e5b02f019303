-- The queries of the job compact, which makes the first pass over a topic. The broker makes the second pass.

-- name: topics
-- The topic or its partitions, with the compaction that is stored. A topic that was never compacted is read from its
-- first message.
SELECT t.topic_id, t.name, coalesce(c.generation, 0), coalesce(c.horizon_ledger, -1), coalesce(c.horizon_entry, -1),
       coalesce(c.horizon_messages, 0)
FROM vela_read_v1.topics asked
JOIN vela_read_v1.topics t ON t.partitions = 0 AND (t.topic_id = asked.topic_id OR t.parent_id = asked.topic_id)
LEFT JOIN vela_compaction c ON c.topic_id = t.topic_id
WHERE asked.name = %s ORDER BY t.topic_id

-- name: begin
INSERT INTO vela_compaction_survey (topic_id, write_id, state, generation, begin_ledger, begin_entry, horizon_ledger,
                                    horizon_entry, error, kept_messages, removed_messages, created_at)
VALUES (%(topic_id)s, %(write_id)s, 'reading', %(generation)s, %(begin_ledger)s, %(begin_entry)s, %(horizon_ledger)s,
        %(horizon_entry)s, '', 0, 0, now())
RETURNING id

-- name: add
-- Spark may repeat a task, so a key may be there already.
INSERT INTO vela_compaction_key (survey_id, key, ledger_id, entry_id, batch_index, is_deleted)
SELECT * FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::integer[], %b::boolean[])
ON CONFLICT DO NOTHING

-- name: ready
UPDATE vela_compaction_survey SET state = 'ready' WHERE id = ANY(%s) AND state = 'reading'

-- name: give_up
UPDATE vela_compaction_survey SET state = 'refused', error = 'the job failed' WHERE id = ANY(%s) AND state = 'reading'

-- name: ask
-- Asks the broker for a policy round, in which it looks at surveys. It also has such rounds without being asked.
SELECT pg_notify('vela_policies', '')

-- name: ends
SELECT state, error, kept_messages, removed_messages FROM vela_compaction_survey WHERE id = ANY(%s) ORDER BY id

-- name: is_served
SELECT EXISTS (SELECT FROM vela_broker WHERE seen_at > now() - interval '30 s')
