-- Queries of Celery's tasks. Some find work that is due and notify the owner, which does the work: no query here changes a
-- delivery. Others delete old rows.

-- name: tick
-- Notifies the owner of every subscription with an overdue delivery and every topic with a delayed message that is due. If
-- nothing is found, an empty notification still wakes the owner, because parked pulls, and Failover's delayed change of the
-- active consumer, have no rows. One tick runs at a time: a second worker finds the lock taken and sends no notification. A
-- deadline of an older epoch belongs to a delivery that has ended. Losing a heartbeat in a crash does no harm, so the commit
-- does not wait for the disk. The row of a delayed message that is due stays until the owner has released the message.
-- PostgreSQL limits a notification to less than 8,000 bytes, so one notification has at most 350 ids.
WITH RECURSIVE mine AS (
    SELECT pg_try_advisory_xact_lock(hashtextextended('vela tick ' || current_database(), 0)) AS taken
), alive AS (
    INSERT INTO vela_heartbeat (name, at) SELECT 'worker', now() FROM mine WHERE taken
    ON CONFLICT (name) DO UPDATE SET at = EXCLUDED.at RETURNING name, set_config('synchronous_commit', 'off', true)
), delaying AS (
    -- One probe of the primary key per topic with delayed entries, whatever their number.
    (SELECT topic_id FROM vela_delayed_entry ORDER BY topic_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.topic_id FROM vela_delayed_entry d WHERE d.topic_id > delaying.topic_id ORDER BY d.topic_id LIMIT 1)
    FROM delaying WHERE delaying.topic_id IS NOT NULL
), found AS (
    SELECT DISTINCT 'subscriptions' AS kind, p.subscription_id AS id
    FROM vela_pending_ack p JOIN vela_topic_owner o ON o.topic_id = p.topic_id AND o.owner_epoch = p.owner_epoch
    WHERE p.deadline_ms <= %(now_ms)s
    UNION ALL
    SELECT 'delayed', t.topic_id FROM delaying t
    WHERE EXISTS (SELECT FROM vela_delayed_entry d WHERE d.topic_id = t.topic_id AND d.deliver_at_ms <= %(now_ms)s)
), parts AS (
    SELECT kind, id, (row_number() OVER (PARTITION BY kind ORDER BY id) - 1) / 350 AS part FROM found
), notifications AS (
    SELECT json_build_object(kind, json_agg(id))::text AS payload, count(*) AS places FROM parts GROUP BY kind, part
    UNION ALL
    SELECT '{}', 0 WHERE NOT EXISTS (SELECT FROM found)
)
SELECT pg_notify('vela_tick', payload), places FROM notifications, mine WHERE mine.taken

-- name: policies
-- The owner checks quotas and expiry from memory. This query only notifies the owner.
SELECT pg_notify('vela_policies', '')

-- name: lifetime
-- Notifies the owner to look for data to trim, expire or drop. Without an owner this has no effect.
SELECT pg_notify('vela_lifetime', '')

-- name: dead_sessions
-- Deletes sessions that a broker left when it died, and sessions of an earlier owner epoch.
WITH silent AS (
    SELECT NOT EXISTS (
        SELECT FROM vela_broker WHERE seen_at > now() - make_interval(secs => %(silent_s)s) AND stopped_at IS NULL
    ) AS broker
), consumers AS (
    DELETE FROM vela_consumer_session s USING silent
    WHERE silent.broker OR s.owner_epoch < (SELECT owner_epoch FROM vela_topic_owner o WHERE o.topic_id = s.topic_id)
          AND s.updated_ms < %(now_ms)s - 1000 * %(silent_s)s
    RETURNING s.key
), producers AS (
    DELETE FROM vela_producer_session s USING silent
    WHERE silent.broker OR s.owner_epoch < (SELECT owner_epoch FROM vela_topic_owner o WHERE o.topic_id = s.topic_id)
          AND s.updated_ms < %(now_ms)s - 1000 * %(silent_s)s
    RETURNING s.key
), pending AS (
    DELETE FROM vela_pending_ack p USING consumers c WHERE p.consumer_key = c.key RETURNING p.delivery_id
)
SELECT (SELECT count(*) FROM consumers), (SELECT count(*) FROM producers), (SELECT count(*) FROM pending)

-- name: beat
-- The commit does not wait for the disk.
INSERT INTO vela_heartbeat (name, at) VALUES ('beat', now()) ON CONFLICT (name) DO UPDATE SET at = EXCLUDED.at
RETURNING set_config('synchronous_commit', 'off', true)

-- name: heartbeat_age
SELECT extract(epoch FROM now() - at)::float8 FROM vela_heartbeat WHERE name = %s

-- name: expire_plans
-- A plan that was not applied in time no longer describes the current state. A plan that needs a second person waits longer.
WITH expired AS (
    UPDATE vela_act a SET state = 'expired', error = 'the plan was not applied in time; plan again', error_code = 'ActExpired',
           message = NULL, finished_at = now()
    WHERE state = 'planned' AND coalesce(finished_at, requested_at) < now() - make_interval(secs => %(plan_expiry_s)s)
      AND (coalesce(finished_at, requested_at) < now() - make_interval(secs => %(second_person_s)s)
           OR NOT EXISTS (
               SELECT FROM vela_tenant t JOIN vela_namespace n ON n.tenant_id = t.id
               WHERE t.name = split_part(a.namespace, '/', 1) AND n.name = split_part(a.namespace, '/', 2)
               AND n.policies @> '{"second_person": true}'))
    RETURNING id
)
SELECT count(*) FROM expired

-- name: trim_acts
-- Deletes some of the oldest finished acts, but no act that waits, runs, or can be undone. Parts are deleted with their act.
WITH whole AS MATERIALIZED (
    SELECT id FROM vela_act
    WHERE coalesce(finished_at, requested_at) < now() - make_interval(days => %(keep_days)s) AND part_of_id IS NULL
      AND state IN ('applied', 'refused', 'failed', 'expired') AND (undo_until IS NULL OR undo_until < now())
    ORDER BY id LIMIT %(most)s
), doomed AS MATERIALIZED (
    SELECT id FROM whole UNION ALL SELECT p.id FROM vela_act p JOIN whole w ON w.id = p.part_of_id
), orphans AS (
    UPDATE vela_act a SET undo_of_id = NULL FROM doomed d WHERE a.undo_of_id = d.id AND a.id NOT IN (SELECT id FROM doomed)
), gone AS (
    DELETE FROM vela_act a USING doomed d WHERE a.id = d.id RETURNING a.id
)
SELECT count(*) FROM gone

-- name: trim_client_acts
-- Clients write acts that no operator asked for: their own seeks and unsubscribes, and the offsets of pulls. Only the
-- newest of these acts are kept, because otherwise a client that seeks in a loop would fill the disk. The latest move of a
-- cursor is kept too: without it, an earlier move of an operator would count as the latest, and could be undone. Both scans use
-- the index vela_act_clients.
WITH edge AS MATERIALIZED (
    SELECT id FROM vela_act WHERE origin LIKE 'client %%' ORDER BY id DESC OFFSET %(keep)s LIMIT 1
), doomed AS MATERIALIZED (
    SELECT a.id FROM vela_act a WHERE a.origin LIKE 'client %%' AND a.id <= (SELECT id FROM edge)
    AND a.state IN ('applied', 'refused', 'failed', 'expired')
    AND (a.subscription_id IS NULL OR a.cursor_before IS NULL OR EXISTS (
        SELECT FROM vela_act l WHERE l.subscription_id = a.subscription_id AND l.id > a.id AND l.state = 'applied'
        AND l.cursor_before IS NOT NULL))
    ORDER BY a.id LIMIT %(most)s
), orphans AS (
    UPDATE vela_act a SET undo_of_id = NULL FROM doomed d WHERE a.undo_of_id = d.id
), gone AS (
    DELETE FROM vela_act a USING doomed d WHERE a.id = d.id RETURNING a.id
)
SELECT count(*) FROM gone
