-- Subscriptions, cursors, their chunks, and pending acks. The owner's epoch guards every write in this file, except those of
-- pending acks.

-- name: of_topic
SELECT s.id, s.name, s.type, s.properties, c.mark_delete_ledger, c.mark_delete_entry, c.acked_messages, c.acked_entries,
       c.acked_bytes, c.version, coalesce(y.last_used_ms, 0), s.paused
FROM vela_subscription s JOIN vela_cursor c ON c.subscription_id = s.id
LEFT JOIN vela_subscription_summary y ON y.subscription_id = s.id WHERE s.topic_id = %s ORDER BY s.id

-- name: chunks_of_topic
SELECT k.cursor_id, k.ledger_id, k.chunk, k.bits, k.ack_sets
FROM vela_cursor_chunk k JOIN vela_subscription s ON s.id = k.cursor_id WHERE s.topic_id = %s

-- name: create
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), s AS (
    INSERT INTO vela_subscription (topic_id, name, type, properties, created_at)
    SELECT topic_id, %(name)s, %(type)s, %(properties)s, now() FROM o
    ON CONFLICT (topic_id, name) DO NOTHING RETURNING id
), c AS (
    INSERT INTO vela_cursor (subscription_id, mark_delete_ledger, mark_delete_entry, acked_messages, acked_entries,
                             acked_bytes, version)
    SELECT id, %(mark_delete_ledger)s, %(mark_delete_entry)s, %(acked_messages)s, %(acked_entries)s, %(acked_bytes)s, 0
    FROM s RETURNING subscription_id
), k AS (
    INSERT INTO vela_cursor_chunk (cursor_id, ledger_id, chunk, bits, ack_sets)
    SELECT s.id, u.ledger_id, u.chunk, u.bits, u.ack_sets
    FROM s, unnest(%(ledgers)b::bigint[], %(chunks)b::integer[], %(bits)b::bytea[], %(ack_sets)b::bytea[])
         AS u(ledger_id, chunk, bits, ack_sets)
)
SELECT coalesce((SELECT subscription_id FROM c), 0) FROM o

-- name: set_type
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), s AS (
    UPDATE vela_subscription s SET type = %(type)s FROM o WHERE s.id = %(subscription_id)s
)
SELECT topic_id FROM o

-- name: set_paused
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), s AS (
    UPDATE vela_subscription s SET paused = %(paused)s FROM o WHERE s.id = %(subscription_id)s
)
SELECT topic_id FROM o

-- name: flush
-- Stores all dirty cursors and chunks of many topics in one statement. Bitmaps and ack sets are separate parameters, so that
-- a change of one does not rewrite the other (NULL = unchanged). A topic that is missing from the answer is fenced.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner
    WHERE (topic_id, owner_epoch) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
    ORDER BY topic_id FOR SHARE
), c AS (
    UPDATE vela_cursor c SET mark_delete_ledger = u.mark_delete_ledger, mark_delete_entry = u.mark_delete_entry,
           acked_messages = u.acked_messages, acked_entries = u.acked_entries, acked_bytes = u.acked_bytes,
           version = u.version
    FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[])
         AS u(topic_id, subscription_id, mark_delete_ledger, mark_delete_entry, acked_messages, acked_entries,
              acked_bytes, version)
    JOIN o USING (topic_id)
    WHERE c.subscription_id = u.subscription_id
), gone AS (
    DELETE FROM vela_cursor_chunk k USING unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::integer[])
         AS u(topic_id, cursor_id, ledger_id, chunk) JOIN o USING (topic_id)
    WHERE k.cursor_id = u.cursor_id AND k.ledger_id = u.ledger_id AND k.chunk = u.chunk
), k AS (
    INSERT INTO vela_cursor_chunk AS old (cursor_id, ledger_id, chunk, bits, ack_sets)
    SELECT u.cursor_id, u.ledger_id, u.chunk, coalesce(u.bits, ''), coalesce(u.ack_sets, '')
    FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::integer[], %b::bytea[], %b::bytea[])
         AS u(topic_id, cursor_id, ledger_id, chunk, bits, ack_sets) JOIN o USING (topic_id)
    JOIN vela_cursor alive ON alive.subscription_id = u.cursor_id
    ON CONFLICT (cursor_id, ledger_id, chunk) DO UPDATE
        SET bits = CASE WHEN EXCLUDED.bits = '' THEN old.bits ELSE EXCLUDED.bits END,
            ack_sets = CASE WHEN EXCLUDED.ack_sets = '' THEN old.ack_sets ELSE EXCLUDED.ack_sets END
)
SELECT topic_id FROM o

-- name: delete_subscription
-- Also deletes the rows that refer to the subscription: PostgreSQL checks foreign keys at the end of the statement, and only
-- the ORM cascades deletes. Acts stay as the audit log, with the names stored in them. Safe to repeat after a lost answer.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), chunks AS (
    DELETE FROM vela_cursor_chunk k USING o WHERE k.cursor_id = %(subscription_id)s
), cursors AS (
    DELETE FROM vela_cursor c USING o WHERE c.subscription_id = %(subscription_id)s
), summaries AS (
    DELETE FROM vela_subscription_summary s USING o WHERE s.subscription_id = %(subscription_id)s
), obstacles AS (
    DELETE FROM vela_subscription_obstacles b USING o WHERE b.subscription_id = %(subscription_id)s
), departures AS (
    DELETE FROM vela_consumer_departure d USING o WHERE d.subscription_id = %(subscription_id)s
), pending AS (
    DELETE FROM vela_pending_ack p USING o WHERE p.subscription_id = %(subscription_id)s
), acts AS (
    UPDATE vela_act a SET subscription_id = NULL FROM o WHERE a.subscription_id = %(subscription_id)s
), gone AS (
    DELETE FROM vela_subscription s USING o WHERE s.id = %(subscription_id)s AND s.topic_id = o.topic_id
)
SELECT topic_id FROM o

-- name: replace_pending
-- Replaces all rows of a consumer together, some time after the deliveries.
WITH gone AS (DELETE FROM vela_pending_ack WHERE consumer_key = ANY(%b::bigint[]))
INSERT INTO vela_pending_ack (delivery_id, owner_epoch, topic_id, subscription_id, consumer_key, consumer_name, ledger_id,
                              first_entry, last_entry, messages, delivered_ms, redelivery_count, deadline_ms)
SELECT nextval('vela_delivery_id'), u.* FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::text[],
    %b::bigint[], %b::bigint[], %b::bigint[], %b::integer[], %b::bigint[], %b::integer[], %b::bigint[]) AS u

-- name: forget_pending
DELETE FROM vela_pending_ack
