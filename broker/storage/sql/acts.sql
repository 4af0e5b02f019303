-- Operators' acts (design 9). Anybody inserts a request; only the topic's owner answers it.

-- name: request_plan
INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, error, who, origin,
                      reason, undo_of_id, created_at, requested_at)
SELECT %(kind)s, 'plan_requested', s.topic_id, s.id, t.name, s.name, %(parameters)s, '', %(who)s, %(origin)s, %(reason)s,
       %(undo_of)s, now(), now()
FROM vela_subscription s JOIN vela_topic t ON t.id = s.topic_id WHERE t.name = %(topic)s AND s.name = %(subscription)s
RETURNING id

-- name: request_apply
UPDATE vela_act SET state = 'apply_requested', requested_at = now(), who = %(who)s, origin = %(origin)s,
       reason = %(reason)s
WHERE id = %(id)s AND state = 'planned' RETURNING id

-- name: wake_owner
SELECT pg_notify('vela_act', %s::text)

-- name: get
SELECT id, kind, state, topic_name, subscription_name, parameters, plan, result, error, who, origin, reason,
       cursor_version, undo_of_id, undo_until, created_at, requested_at, finished_at
FROM vela_act WHERE id = %s

-- name: waiting
SELECT id, kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, plan, cursor_version,
       undo_of_id, extract(epoch FROM now() - requested_at)::float8 AS waited_s
FROM vela_act WHERE state IN ('plan_requested', 'apply_requested') ORDER BY id LIMIT 100

-- name: finish
UPDATE vela_act SET state = %(state)s, plan = coalesce(%(plan)s, plan), result = coalesce(%(result)s, result),
       error = %(error)s, cursor_version = coalesce(%(cursor_version)s, cursor_version), finished_at = now()
WHERE id = %(id)s AND state IN ('plan_requested', 'apply_requested', 'client')

-- name: wake_requester
SELECT pg_notify('vela_act_done', %s::text)

-- name: apply_to_cursor
-- Change, snapshot and result in one statement, under the owner's epoch: an act is either whole or not there.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), c AS (
    UPDATE vela_cursor c SET mark_delete_ledger = %(mark_delete_ledger)s, mark_delete_entry = %(mark_delete_entry)s,
           acked_messages = %(acked_messages)s, acked_entries = %(acked_entries)s, acked_bytes = %(acked_bytes)s,
           version = %(version)s
    FROM o WHERE c.subscription_id = %(subscription_id)s RETURNING c.subscription_id
), gone AS (
    DELETE FROM vela_cursor_chunk k USING c WHERE k.cursor_id = c.subscription_id
    AND (k.ledger_id, k.chunk) NOT IN (SELECT * FROM unnest(%(kept_ledgers)b::bigint[], %(kept_chunks)b::integer[]))
), k AS (
    INSERT INTO vela_cursor_chunk (cursor_id, ledger_id, chunk, bits, ack_sets)
    SELECT c.subscription_id, u.ledger_id, u.chunk, u.bits, u.ack_sets
    FROM c, unnest(%(kept_ledgers)b::bigint[], %(kept_chunks)b::integer[], %(bits)b::bytea[], %(ack_sets)b::bytea[])
         AS u(ledger_id, chunk, bits, ack_sets)
    ON CONFLICT (cursor_id, ledger_id, chunk) DO UPDATE SET bits = EXCLUDED.bits, ack_sets = EXCLUDED.ack_sets
), a AS (
    UPDATE vela_act SET state = 'applied', result = %(result)s, cursor_before = %(cursor_before)s,
           undo_until = CASE WHEN %(undo_window_s)s > 0 THEN now() + make_interval(secs => %(undo_window_s)s) END,
           finished_at = now()
    FROM c WHERE vela_act.id = %(act_id)s
)
SELECT subscription_id FROM c

-- name: record_client_act
-- A client's own seek or unsubscribe is written to the log too. It is not "requested": nobody else may execute it.
INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, error, who, origin,
                      reason, cursor_version, created_at, requested_at)
VALUES (%(kind)s, 'client', %(topic_id)s, %(subscription_id)s, %(topic_name)s, %(subscription_name)s, %(parameters)s,
        '', %(who)s, %(origin)s, '', %(cursor_version)s, now(), now())
RETURNING id

-- name: undo_source
SELECT id, kind, state, subscription_id, cursor_before, result, undo_until > now() AS open
FROM vela_act WHERE id = %s

-- name: latest_applied
SELECT max(id) FROM vela_act WHERE subscription_id = %s AND state = 'applied'
