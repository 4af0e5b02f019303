-- What time drives, from outside the broker's process (design 7). Changes no delivery state: it notifies the owner.

-- name: tick
-- The owner is told even when no row is due: what it only holds in memory, such as held pulls, has none.
-- One at a time, however many workers run: the second finds the lock taken and leaves. A deadline of an older epoch is
-- of a delivery that is gone. A delayed entry that is due has its row until the owner has let it go.
WITH RECURSIVE mine AS (
    SELECT pg_try_advisory_xact_lock(hashtextextended('vela tick ' || current_database(), 0)) AS taken
), alive AS (
    INSERT INTO vela_heartbeat (name, at) SELECT 'worker', now() FROM mine WHERE taken
    ON CONFLICT (name) DO UPDATE SET at = EXCLUDED.at RETURNING name
), due AS (
    SELECT count(DISTINCT p.subscription_id) AS subscriptions
    FROM vela_pending_ack p JOIN vela_topic_owner o ON o.topic_id = p.topic_id AND o.owner_epoch = p.owner_epoch
    WHERE p.deadline_ms <= %(now_ms)s
), delaying AS (
    -- One probe of the primary key a topic that has delayed entries, however many these are.
    (SELECT topic_id FROM vela_delayed_entry ORDER BY topic_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.topic_id FROM vela_delayed_entry d WHERE d.topic_id > delaying.topic_id ORDER BY d.topic_id LIMIT 1)
    FROM delaying WHERE delaying.topic_id IS NOT NULL
), released AS (
    SELECT count(*) AS topics FROM delaying t
    WHERE EXISTS (SELECT FROM vela_delayed_entry d WHERE d.topic_id = t.topic_id AND d.deliver_at_ms <= %(now_ms)s)
), work AS (
    SELECT due.subscriptions + released.topics AS places FROM due, released
)
SELECT pg_notify('vela_tick', work.places::text), work.places FROM work, mine WHERE mine.taken

-- name: policies
-- Quotas and expiry are the owner's to check, from memory; it is only told that it is time.
SELECT pg_notify('vela_policies', '')

-- name: lifetime
-- It is time to look at what may go. The owner decides; without one nobody listens.
SELECT pg_notify('vela_lifetime', '')

-- name: dead_sessions
-- Who was connected to a broker that died without a word, or whose topic has another owner by now.
WITH silent AS (
    SELECT NOT EXISTS (SELECT FROM vela_broker WHERE seen_at > now() - make_interval(secs => %(silent_s)s)) AS broker
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
INSERT INTO vela_heartbeat (name, at) VALUES ('beat', now()) ON CONFLICT (name) DO UPDATE SET at = EXCLUDED.at

-- name: heartbeat_age
SELECT extract(epoch FROM now() - at)::float8 FROM vela_heartbeat WHERE name = %s

-- name: expire_plans
-- A plan that nobody applied says nothing about the present any more.
WITH expired AS (
    UPDATE vela_act SET state = 'expired', error = 'nobody applied this plan in time; plan it again', error_code = 'ActExpired',
           finished_at = now()
    WHERE state = 'planned' AND coalesce(finished_at, requested_at) < now() - make_interval(secs => %(plan_expiry_s)s)
    RETURNING id
)
SELECT count(*) FROM expired

-- name: trim_acts
-- The oldest acts that are over for good, some at a time: none that waits, is under way, or can be undone.
WITH doomed AS MATERIALIZED (
    SELECT id FROM vela_act
    WHERE coalesce(finished_at, requested_at) < now() - make_interval(days => %(keep_days)s)
      AND state IN ('applied', 'refused', 'failed', 'expired') AND (undo_until IS NULL OR undo_until < now())
    ORDER BY id LIMIT 1000
), orphans AS (
    UPDATE vela_act a SET undo_of_id = NULL FROM doomed d WHERE a.undo_of_id = d.id AND a.id NOT IN (SELECT id FROM doomed)
), gone AS (
    DELETE FROM vela_act a USING doomed d WHERE a.id = d.id RETURNING a.id
)
SELECT count(*) FROM gone
