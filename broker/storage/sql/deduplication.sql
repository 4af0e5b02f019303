-- Deduplication: the sequence ids of each producer name, and the position up to which they cover the log.

-- name: position_of
SELECT ledger_id, entry_id FROM vela_deduplication WHERE topic_id = %s

-- name: producers_of
SELECT producer_name, sequence_id, chunk_sequence_id, chunk_id, seen_ms FROM vela_deduplicated_producer
WHERE topic_id = %s

-- name: flush
-- Stores the rows and the position of each topic in one statement, guarded by the owner's epoch. A topic that is missing
-- from the answer is fenced.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner
    WHERE (topic_id, owner_epoch) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
    ORDER BY topic_id FOR SHARE
), p AS (
    INSERT INTO vela_deduplication (topic_id, ledger_id, entry_id)
    SELECT u.topic_id, u.ledger_id, u.entry_id
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS u(topic_id, ledger_id, entry_id) JOIN o USING (topic_id)
    ON CONFLICT (topic_id) DO UPDATE SET ledger_id = EXCLUDED.ledger_id, entry_id = EXCLUDED.entry_id
), s AS (
    INSERT INTO vela_deduplicated_producer (topic_id, producer_name, sequence_id, chunk_sequence_id, chunk_id, seen_ms)
    SELECT u.topic_id, u.producer_name, u.sequence_id, u.chunk_sequence_id, u.chunk_id, u.seen_ms
    FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::integer[], %s::bigint[])
         AS u(topic_id, producer_name, sequence_id, chunk_sequence_id, chunk_id, seen_ms) JOIN o USING (topic_id)
    ON CONFLICT (topic_id, producer_name) DO UPDATE
        SET sequence_id = EXCLUDED.sequence_id, chunk_sequence_id = EXCLUDED.chunk_sequence_id,
            chunk_id = EXCLUDED.chunk_id, seen_ms = EXCLUDED.seen_ms
), gone AS (
    DELETE FROM vela_deduplicated_producer d USING unnest(%s::bigint[], %s::text[]) AS u(topic_id, producer_name)
    JOIN o USING (topic_id)
    WHERE d.topic_id = u.topic_id AND d.producer_name = u.producer_name
)
SELECT topic_id FROM o

-- name: forget_topic
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), s AS (
    DELETE FROM vela_deduplicated_producer d USING o WHERE d.topic_id = o.topic_id
), p AS (
    DELETE FROM vela_deduplication d USING o WHERE d.topic_id = o.topic_id
)
SELECT topic_id FROM o
