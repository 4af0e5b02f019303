-- The log. {entries} is the name of one segment's table.

-- name: append
-- One statement for the ready entries of many topics. A topic missing from the answer is fenced: another owner
-- advanced its epoch, and none of its entries was stored. FOR SHARE in topic order: statements that advance several
-- epochs use the same order, or the two would deadlock (tried). The lock also makes an advance of the epoch wait until
-- this statement has ended. Without that, nobody could find out what a statement of unknown outcome stored.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner
    WHERE (topic_id, owner_epoch) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
    ORDER BY topic_id FOR SHARE
), i AS (
    INSERT INTO {entries} (ledger_id, entry_id, messages, flags, key_hash, append_ms, deliver_at_ms,
                           cumulative_messages, cumulative_bytes, data)
    SELECT e.ledger_id, e.entry_id, e.messages, e.flags, e.key_hash, e.append_ms, e.deliver_at_ms,
           e.cumulative_messages, e.cumulative_bytes, e.data
    FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::integer[], $7::smallint[], $8::integer[], $9::bigint[],
                $10::bigint[], $11::bigint[], $12::bigint[], $13::bytea[])
         AS e(topic_id, ledger_id, entry_id, messages, flags, key_hash, append_ms, deliver_at_ms,
              cumulative_messages, cumulative_bytes, data)
    JOIN o USING (topic_id)
)
SELECT topic_id FROM o

-- name: append_more
-- Does the same as `append`, inserts the due times of entries that are not due yet, and deletes the outbox rows that the
-- entries came from: all of it or nothing.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner
    WHERE (topic_id, owner_epoch) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
    ORDER BY topic_id FOR SHARE
), i AS (
    INSERT INTO {entries} (ledger_id, entry_id, messages, flags, key_hash, append_ms, deliver_at_ms,
                           cumulative_messages, cumulative_bytes, data)
    SELECT e.ledger_id, e.entry_id, e.messages, e.flags, e.key_hash, e.append_ms, e.deliver_at_ms,
           e.cumulative_messages, e.cumulative_bytes, e.data
    FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::integer[], $7::smallint[], $8::integer[], $9::bigint[],
                $10::bigint[], $11::bigint[], $12::bigint[], $13::bytea[])
         AS e(topic_id, ledger_id, entry_id, messages, flags, key_hash, append_ms, deliver_at_ms,
              cumulative_messages, cumulative_bytes, data)
    JOIN o USING (topic_id)
), d AS (
    INSERT INTO vela_delayed_entry (topic_id, deliver_at_ms, ledger_id, entry_id)
    SELECT d.topic_id, d.deliver_at_ms, d.ledger_id, d.entry_id
    FROM unnest($14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[])
         AS d(topic_id, deliver_at_ms, ledger_id, entry_id)
    JOIN o USING (topic_id)
), x AS (
    DELETE FROM vela_outbox x USING unnest($18::bigint[], $19::bigint[]) AS moved(topic_id, id) JOIN o USING (topic_id)
    WHERE x.id = moved.id
)
SELECT topic_id FROM o

-- name: read
-- A range by primary key. It ends where the data after the first entry would exceed the limit in bytes.
SELECT entry_id, messages, flags, key_hash, deliver_at_ms, append_ms, cumulative_messages, cumulative_bytes, data
FROM {entries} WHERE ledger_id = %b AND entry_id >= %b AND entry_id <= %b AND cumulative_bytes <= (
    SELECT cumulative_bytes FROM {entries} WHERE ledger_id = %b AND entry_id = %b
) + %b::bigint ORDER BY entry_id

-- name: read_some
-- Chosen entries of one ledger, for replay.
SELECT entry_id, messages, flags, key_hash, deliver_at_ms, append_ms, cumulative_messages, cumulative_bytes, data
FROM {entries} WHERE ledger_id = %b AND entry_id = ANY(%b::bigint[]) ORDER BY entry_id

-- name: read_counts
-- The counts that the message index needs, without the data.
SELECT entry_id, cumulative_messages, cumulative_bytes
FROM {entries} WHERE ledger_id = %b AND entry_id >= %b AND entry_id <= %b ORDER BY entry_id

-- name: last
SELECT entry_id, messages, append_ms, cumulative_messages, cumulative_bytes
FROM {entries} WHERE ledger_id = %b ORDER BY entry_id DESC LIMIT 1

-- name: append_ms_at
-- One probe of the binary search by time: append times never go back within a topic.
SELECT append_ms FROM {entries} WHERE ledger_id = %b AND entry_id = %b

-- name: messages_through
-- One probe of the search for an offset counted in messages.
SELECT cumulative_messages FROM {entries} WHERE ledger_id = %b AND entry_id = %b
