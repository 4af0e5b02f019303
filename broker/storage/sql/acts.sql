-- Acts of operators and clients. Any process inserts a request; only the topic's owner answers it.
--
-- An act on several partitions is one row without a subscription. When it is applied, each partition gets a separate row
-- with part_of_id, and that row has the snapshot. An undo, and a search for the latest act, treat a part like any other act.
--
-- The latest move of a cursor is the applied act with a snapshot that finished last. The queries get, open_undos and
-- latest_move repeat this rule, and so do undo_pins in lifetime.sql and the console's list of acts. They must agree. An act
-- can be undone while undo_until > now(), by the clock of PostgreSQL alone. The broker also computes this time by its own
-- clock (ReadyMove.stored), to know how long to record acks for the undo.

-- name: request_plan
-- A partitioned topic has its subscriptions on its partitions. An act on it concerns the partitions that have a subscription
-- of this name.
INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, error, who, origin,
                      reason, undo_of_id, created_at, requested_at)
SELECT %(kind)s, 'plan_requested', w.topic_id, w.subscription_id, %(topic)s, %(subscription)s, %(parameters)s, '', %(who)s,
       %(origin)s, %(reason)s, %(undo_of)s, now(), now()
FROM (
    SELECT t.id AS topic_id, s.id AS subscription_id
    FROM vela_topic t JOIN vela_subscription s ON s.topic_id = t.id WHERE t.name = %(topic)s AND s.name = %(subscription)s
    UNION ALL
    SELECT t.id, NULL FROM vela_topic t WHERE t.name = %(topic)s AND t.partitions > 0
    AND EXISTS (SELECT FROM vela_topic p JOIN vela_subscription s ON s.topic_id = p.id
                WHERE p.parent_id = t.id AND s.name = %(subscription)s)
) w
RETURNING id

-- name: request_topic_plan
INSERT INTO vela_act (kind, state, topic_id, topic_name, subscription_name, parameters, message, error, who, origin, reason,
                      created_at, requested_at)
SELECT %(kind)s, 'plan_requested', t.id, t.name, '', %(parameters)s, %(message)s, '', %(who)s, %(origin)s, %(reason)s,
       now(), now()
FROM vela_topic t WHERE t.name = %(topic)s
RETURNING id

-- name: request_namespace_plan
INSERT INTO vela_act (kind, state, topic_name, subscription_name, parameters, error, who, origin, reason, created_at,
                      requested_at)
SELECT %(kind)s, 'plan_requested', n.tenant || '/' || n.name, '', %(parameters)s, '', %(who)s, %(origin)s, %(reason)s,
       now(), now()
FROM (SELECT t.name AS tenant, n.name FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id) n
WHERE n.tenant || '/' || n.name = %(topic)s
RETURNING id

-- name: request_new_namespace_plan
-- For an act that creates its namespace or tenant, so there is nothing to look up.
INSERT INTO vela_act (kind, state, topic_name, subscription_name, parameters, error, who, origin, reason, created_at,
                      requested_at)
VALUES (%(kind)s, 'plan_requested', %(topic)s, '', %(parameters)s, '', %(who)s, %(origin)s, %(reason)s, now(), now())
RETURNING id

-- name: request_apply
-- If the request has a reason, it replaces the plan's. Without any reason, an act on a protected namespace is not applied.
-- With the policy second_person, planner and applier must be two users: `people` has the words with which the origin of a
-- logged-in user's request begins.
UPDATE vela_act a SET state = 'apply_requested', requested_at = now(), who = %(who)s, origin = %(origin)s,
       reason = coalesce(nullif(btrim(%(reason)s), ''), reason),
       plan = plan || CASE WHEN %(allowed_drift_messages)s::bigint IS NULL THEN '{}'::jsonb
                      ELSE jsonb_build_object('allowed_drift_messages', %(allowed_drift_messages)s::bigint) END
            || CASE WHEN a.who = %(who)s THEN '{}'::jsonb
               ELSE jsonb_build_object('planned_by', a.who, 'planned_from', a.origin) END
WHERE id = %(id)s AND state = 'planned'
      AND (btrim(%(reason)s || reason) <> '' OR NOT vela_needs_reason_v1(topic_name))
      AND ((a.who <> %(who)s AND split_part(a.origin, ' ', 1) = ANY(%(people)s::text[])
            AND split_part(%(origin)s, ' ', 1) = ANY(%(people)s::text[]))
           OR NOT EXISTS (
               SELECT FROM vela_tenant t JOIN vela_namespace n ON n.tenant_id = t.id
               WHERE t.name = split_part(a.namespace, '/', 1) AND n.name = split_part(a.namespace, '/', 2)
               AND n.policies @> '{"second_person": true}'))
RETURNING id

-- name: refuse
-- Refuses a plan, so that nobody can apply it. Notifies the processes that wait for the act.
WITH refused AS (
    UPDATE vela_act a SET state = 'refused', error = %(error)s, error_code = %(error_code)s, message = NULL, who = %(who)s,
           origin = %(origin)s, finished_at = now(),
           plan = plan || CASE WHEN a.who = %(who)s THEN '{}'::jsonb
                          ELSE jsonb_build_object('planned_by', a.who, 'planned_from', a.origin) END
    WHERE id = %(id)s AND state = 'planned'
    RETURNING id
)
SELECT id, pg_notify('vela_act_done', id::text) FROM refused

-- name: outcome
SELECT state, error FROM vela_act WHERE id = %s

-- name: wake_owner
SELECT pg_notify('vela_act', %s::text)

-- name: get
-- `moved_by` is a later act that moved one of this act's cursors. `is_cursor_gone`: the subscription of one of these
-- cursors was deleted.
SELECT a.id, a.kind, a.state, a.topic_name, a.subscription_name, a.parameters, a.plan, a.result, a.error, a.who, a.origin,
       a.reason, a.cursor_version, a.undo_of_id, a.undo_until, a.created_at, a.requested_at, a.finished_at, a.error_code,
       a.progress, (SELECT max(u.id) FROM vela_act u WHERE u.undo_of_id = a.id AND u.state = 'applied') AS undone_by,
       coalesce(a.state = 'applied' AND a.undo_until > now(), false) AND moved.by_act IS NULL AND NOT moved.is_cursor_gone
           AS undoable,
       btrim(a.reason) = '' AND vela_needs_reason_v1(a.topic_name) AS needs_reason,
       a.part_of_id, moved.by_act AS moved_by, moved.is_cursor_gone,
       a.state = 'planned' AND EXISTS (
           SELECT FROM vela_tenant t JOIN vela_namespace n ON n.tenant_id = t.id
           WHERE t.name = split_part(a.namespace, '/', 1) AND n.name = split_part(a.namespace, '/', 2)
           AND n.policies @> '{"second_person": true}') AS needs_second_person
FROM vela_act a CROSS JOIN LATERAL (
    SELECT max(coalesce(z.part_of_id, z.id)) FILTER (WHERE z.id <> m.id) AS by_act,
           coalesce(bool_or(z.id IS NULL), false) AS is_cursor_gone
    FROM vela_act m LEFT JOIN LATERAL (
        SELECT l.id, l.part_of_id FROM vela_act l
        WHERE l.subscription_id = m.subscription_id AND l.state = 'applied' AND l.cursor_before IS NOT NULL
        ORDER BY l.finished_at DESC, l.id DESC LIMIT 1
    ) z ON true
    WHERE (m.id = a.id OR m.part_of_id = a.id) AND m.cursor_before IS NOT NULL
) moved
WHERE a.id = %s

-- name: waiting
-- Returns few requests at a time: each may have a message of 1 MiB, or the plans of 1,000 partitions.
SELECT id, kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, plan, cursor_version,
       undo_of_id, extract(epoch FROM now() - requested_at)::float8 AS waited_s, who, progress, message
FROM vela_act WHERE state IN ('plan_requested', 'apply_requested') ORDER BY id LIMIT %s

-- name: unfinished
SELECT id, kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, plan, cursor_version,
       undo_of_id, 0::float8 AS waited_s, who, progress, message
FROM vela_act WHERE state = 'applying' ORDER BY id

-- name: end_client_acts
-- Ends the commands of clients, evictions and expiries that an earlier broker began and did not end. A move is stored
-- together with the end of its act, so the moves of these acts did not happen. The removal of a subscription is stored
-- before its act ends.
UPDATE vela_act a SET finished_at = now(),
       state = CASE WHEN is_removed THEN 'applied' ELSE 'failed' END,
       error = CASE WHEN is_removed THEN '' ELSE 'the broker stopped before it had done this' END
FROM (
    SELECT id, kind IN ('unsubscribe', 'expire_subscription') AND subscription_id IS NULL AS is_removed
    FROM vela_act WHERE state = 'client'
) f WHERE a.id = f.id AND a.state = 'client' AND a.created_at < (SELECT started_at FROM vela_broker WHERE id = 1)

-- name: finish
-- The row keeps a message to publish until the act is finished. After that, the row has only the message's digest.
UPDATE vela_act SET state = %(state)s::text, message = CASE WHEN %(state)s::text = 'planned' THEN message END,
       plan = coalesce(%(plan)s, plan), result = coalesce(%(result)s, result),
       error = %(error)s, error_code = %(error_code)s, cursor_version = coalesce(%(cursor_version)s, cursor_version),
       finished_at = now()
WHERE id = %(id)s AND state IN ('plan_requested', 'apply_requested', 'applying', 'client')

-- name: replan
-- The refused act names the new plan. Repeated after a lost answer, the statement finds nothing to refuse.
WITH n AS (
    INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, plan, error,
                          who, origin, reason, undo_of_id, cursor_version, created_at, requested_at, finished_at)
    SELECT kind, 'planned', topic_id, subscription_id, topic_name, subscription_name, parameters, %(plan)s, '', who,
           origin, reason, undo_of_id, %(cursor_version)s, now(), now(), now()
    FROM vela_act WHERE id = %(id)s AND state = 'apply_requested'
    RETURNING id
)
UPDATE vela_act a SET state = 'refused', error = %(error)s, error_code = %(error_code)s,
       result = jsonb_build_object('new_plan', n.id), finished_at = now()
FROM n WHERE a.id = %(id)s

-- name: begin
UPDATE vela_act SET state = 'applying', progress = '{}' WHERE id = %s AND state = 'apply_requested'

-- name: report
UPDATE vela_act SET progress = %s WHERE id = %s AND state IN ('apply_requested', 'applying')

-- name: wake_requester
SELECT pg_notify('vela_act_done', %s::text)

-- name: apply_to_cursor
-- Stores the change, the snapshot and the result in one statement, guarded by the owner's epoch: an act is stored as a whole
-- or not at all.
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
           acked_since = %(acked_since)s,
           undo_until = CASE WHEN %(undo_window_s)s > 0 THEN now() + make_interval(secs => %(undo_window_s)s) END,
           finished_at = now()
    FROM c WHERE vela_act.id = %(act_id)s
)
SELECT subscription_id FROM c

-- name: record_parts
-- The parts of an act on several partitions. Parts that move a cursor get their snapshots from apply_to_cursor. Repeated
-- after a lost answer, the statement finds the parts that it inserted.
INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, plan, result, error,
                      who, origin, reason, undo_of_id, part_of_id, cursor_version, created_at, requested_at, finished_at)
SELECT a.kind, 'applied', t.id, s.id, t.name, a.subscription_name, a.parameters - 'partitions', p.plan, p.result, '', a.who,
       a.origin, a.reason, p.undo_of, a.id, p.cursor_version, a.created_at, a.requested_at, now()
FROM unnest(%(topics)s::text[], %(plans)s::jsonb[], %(results)s::jsonb[], %(cursor_versions)s::bigint[],
            %(undo_of)s::bigint[]) AS p(topic, plan, result, cursor_version, undo_of)
JOIN vela_act a ON a.id = %(act_id)s JOIN vela_topic t ON t.name = p.topic
LEFT JOIN vela_subscription s ON s.topic_id = t.id AND s.name = a.subscription_name
ON CONFLICT (part_of_id, topic_id) WHERE part_of_id IS NOT NULL DO UPDATE SET result = EXCLUDED.result
RETURNING topic_name, id

-- name: finish_whole
-- Finishes an act on several partitions, in the transaction that stores its parts.
UPDATE vela_act SET state = %(state)s, result = %(result)s, error = %(error)s, error_code = %(error_code)s,
       undo_until = CASE WHEN %(undo_window_s)s > 0 THEN now() + make_interval(secs => %(undo_window_s)s) END,
       finished_at = now()
WHERE id = %(act_id)s AND state = 'apply_requested'

-- name: parts
SELECT p.id, p.topic_name FROM vela_act p WHERE p.part_of_id = %s AND p.state = 'applied' ORDER BY p.id

-- name: record_client_act
-- A client's own seek or unsubscribe is written to the audit log too, and so are the broker's evictions and expiries. The
-- owner executes such an act already, so the act's state is not one of those that `waiting` returns.
INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, error, who, origin,
                      reason, cursor_version, created_at, requested_at)
VALUES (%(kind)s, 'client', %(topic_id)s, %(subscription_id)s, %(topic_name)s, %(subscription_name)s, %(parameters)s,
        '', %(who)s, %(origin)s, '', %(cursor_version)s, now(), now())
RETURNING id

-- name: record_change
-- Records a change that needs no plan, in the transaction that makes the change.
INSERT INTO vela_act (kind, state, topic_name, subscription_name, parameters, error, who, origin, reason, created_at,
                      requested_at, finished_at)
VALUES (%(kind)s, 'applied', %(topic)s, %(subscription)s, %(parameters)s, '', %(who)s, %(origin)s, %(reason)s, now(), now(),
        now())

-- name: record_commit
-- A pull consumer commits every few seconds, so its commits of a day share one act: the first commit inserts the act, and
-- later ones change its offset. The act has no snapshot, because a commit is an ack: the latest move of the cursor can
-- still be undone.
WITH today AS (
    SELECT id FROM vela_act
    WHERE subscription_id = %(subscription_id)s AND kind = 'commit' AND origin = %(origin)s
      AND created_at > now() - interval '24 hours'
    ORDER BY id DESC LIMIT 1
), moved AS (
    UPDATE vela_act a SET parameters = a.parameters || jsonb_build_object('offset', %(offset)s::bigint),
           finished_at = now()
    FROM today WHERE a.id = today.id
)
INSERT INTO vela_act (kind, state, topic_id, subscription_id, topic_name, subscription_name, parameters, error, who, origin,
                      reason, cursor_version, created_at, requested_at, finished_at)
SELECT 'commit', 'applied', %(topic_id)s, %(subscription_id)s, %(topic_name)s, %(subscription_name)s, %(parameters)s, '',
       %(who)s, %(origin)s, '', %(cursor_version)s, now(), now(), now()
WHERE NOT EXISTS (SELECT FROM today)

-- name: undo_source
SELECT id, kind, state, subscription_id, cursor_before, result, undo_until > now() AS open, acked_since
FROM vela_act WHERE id = %s

-- name: open_undos
-- The latest move of each cursor of a topic, if it can still be undone. The owner records acks of the entries that such a
-- move passed.
SELECT subscription_id, id, (extract(epoch FROM undo_until) * 1000)::bigint, result, acked_since
FROM (
    SELECT DISTINCT ON (a.subscription_id) a.*
    FROM vela_act a JOIN vela_subscription s ON s.id = a.subscription_id
    WHERE s.topic_id = %s AND a.state = 'applied' AND a.cursor_before IS NOT NULL
    ORDER BY a.subscription_id, a.finished_at DESC, a.id DESC
) latest
WHERE undo_until > now()

-- name: store_overlays
-- Stores acks of entries that an act passed, with the flush of their cursors.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner
    WHERE (topic_id, owner_epoch) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
    ORDER BY topic_id FOR SHARE
)
UPDATE vela_act a SET acked_since = u.acked_since
FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[]) AS u(topic_id, act_id, acked_since) JOIN o USING (topic_id)
WHERE a.id = u.act_id

-- name: latest_move
-- The act that was applied last is the latest, whatever its id: a plan that was made later may be applied earlier. Acts that
-- move no cursor have no snapshot.
SELECT id FROM vela_act WHERE subscription_id = %s AND state = 'applied' AND cursor_before IS NOT NULL
ORDER BY finished_at DESC, id DESC LIMIT 1
