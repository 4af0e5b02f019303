-- The end of a topic, or of its log. `delete` has a part for each table with a foreign key to topics or subscriptions, and
-- for other tables whose rows end with the topic. Only vela_listed_topic has a trigger instead.

-- name: terminate
-- The caller makes sure that no append is in flight, so that the last entry stays the last. Safe to repeat.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
)
UPDATE vela_topic t SET terminated_at = coalesce(t.terminated_at, now()) FROM o WHERE t.id = o.topic_id RETURNING t.id

-- name: members
-- The topic itself, or its partitions: the topics that store messages.
SELECT t.id, t.name FROM vela_topic p JOIN vela_topic t ON t.id = p.id OR t.parent_id = p.id
WHERE p.name = %s AND t.partitions = 0 ORDER BY t.partition

-- name: subscriptions
SELECT t.name, s.name FROM vela_subscription s JOIN vela_topic t ON t.id = s.topic_id
WHERE t.id = ANY(%s::bigint[]) ORDER BY t.id, s.name

-- name: stored_bytes
SELECT coalesce(sum(s.stored_bytes), 0)::bigint FROM vela_topic_summary s WHERE s.topic_id = ANY(%s::bigint[])

-- name: delete
-- Deletes all of these topics or none. It deletes none if one of them has another owner now, or if the partitioned topic
-- has partitions besides these.
-- Acts stay as the audit log, with the names stored in them. Entries stay in a segment's table until the segment is
-- dropped. These entries are invisible, because the views join the ledgers.
WITH held AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner
    WHERE (topic_id, owner_epoch) IN (SELECT * FROM unnest(%(topic_ids)b::bigint[], %(owner_epochs)b::bigint[]))
    ORDER BY topic_id FOR UPDATE
), o AS MATERIALIZED (
    SELECT i.id AS topic_id FROM unnest(%(topic_ids)b::bigint[] || %(parent_id)s::bigint) AS i(id)
    WHERE i.id IS NOT NULL AND (SELECT count(*) FROM held) = cardinality(%(topic_ids)b::bigint[])
      AND NOT EXISTS (SELECT FROM vela_topic c WHERE c.parent_id = %(parent_id)s AND c.id <> ALL(%(topic_ids)b::bigint[]))
), s AS MATERIALIZED (
    SELECT s.id FROM vela_subscription s JOIN o ON s.topic_id = o.topic_id
), chunks AS (
    DELETE FROM vela_cursor_chunk k USING s WHERE k.cursor_id = s.id
), cursors AS (
    DELETE FROM vela_cursor c USING s WHERE c.subscription_id = s.id
), subscription_summaries AS (
    DELETE FROM vela_subscription_summary y USING s WHERE y.subscription_id = s.id
), obstacles AS (
    DELETE FROM vela_subscription_obstacles b USING s WHERE b.subscription_id = s.id
), departures AS (
    DELETE FROM vela_consumer_departure d USING s WHERE d.subscription_id = s.id
), pending AS (
    DELETE FROM vela_pending_ack p USING o WHERE p.topic_id = o.topic_id
), consumers AS (
    DELETE FROM vela_consumer_session c USING o WHERE c.topic_id = o.topic_id
), producers AS (
    DELETE FROM vela_producer_session p USING o WHERE p.topic_id = o.topic_id
), parked_pulls AS (
    DELETE FROM vela_parked_pulls p USING o WHERE p.topic_id = o.topic_id
), insights AS (
    DELETE FROM vela_insight_hour i USING o WHERE i.topic_id = o.topic_id
), bookmarks AS (
    DELETE FROM vela_bookmark b USING o WHERE b.topic_id = o.topic_id
), deduplicated AS (
    DELETE FROM vela_deduplicated_producer d USING o WHERE d.topic_id = o.topic_id
), deduplication AS (
    DELETE FROM vela_deduplication d USING o WHERE d.topic_id = o.topic_id
), schemas AS (
    DELETE FROM vela_schema m USING vela_topic t, o WHERE t.id = o.topic_id AND m.topic_name = t.name
), schedules AS (
    DELETE FROM vela_pipeline_schedule p USING vela_topic t, o WHERE t.id = o.topic_id AND p.topic_name = t.name
), topic_summaries AS (
    DELETE FROM vela_topic_summary y USING o WHERE y.topic_id = o.topic_id
), delayed AS (
    DELETE FROM vela_delayed_entry d USING o WHERE d.topic_id = o.topic_id
), compacted AS (
    DELETE FROM vela_compacted_entry e USING o WHERE e.topic_id = o.topic_id
), compactions AS (
    DELETE FROM vela_compaction c USING o WHERE c.topic_id = o.topic_id
), acts AS (
    UPDATE vela_act a SET topic_id = NULL, subscription_id = NULL FROM o WHERE a.topic_id = o.topic_id
), subscriptions AS (
    DELETE FROM vela_subscription d USING s WHERE d.id = s.id
), ledgers AS (
    DELETE FROM vela_ledger l USING o WHERE l.topic_id = o.topic_id
), owners AS (
    DELETE FROM vela_topic_owner w USING o WHERE w.topic_id = o.topic_id
), topics AS (
    DELETE FROM vela_topic t USING o WHERE t.id = o.topic_id RETURNING t.id, t.name
), permissions AS (  -- a permission names a whole topic, never one partition
    DELETE FROM vela_permission p USING topics t WHERE p.topic = t.name
    RETURNING pg_notify('vela_access', '')
)
SELECT count(*), (SELECT pg_notify('vela_topics', substring(t.name FROM '://([^/]+/[^/]+)/')) FROM topics t LIMIT 1)
FROM topics
