-- The log. {entries} and {rest} are the names of one segment's tables.

-- name: append
-- Stores the ready entries of many topics. The statement consists of this part, of `append_rest` and `append_more` if they
-- have rows to store, and of `appended`. It stores everything for the topics in the answer, or nothing at all. A topic that
-- is missing from the answer is fenced: its epoch was advanced, and none of its entries was stored.
--
-- The statement locks owners in topic order. Statements that advance several epochs use the same order. With a different
-- order, an append and an advance deadlock (tested). The lock also makes an advance of an epoch wait until this statement
-- has ended. Without that wait, the broker could not find out what a statement of unknown outcome stored.
--
-- PostgreSQL plans the statement once for a session (decision 0049), so rows of other tables are looked up one by one, by
-- key. A plan that reads a whole table may be good when it is made, and bad once the table has grown.
WITH o AS MATERIALIZED (
    SELECT held.topic_id
    FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS k(topic_id, owner_epoch) ORDER BY topic_id) k
    CROSS JOIN LATERAL (
        SELECT t.topic_id FROM vela_topic_owner t
        WHERE t.topic_id = k.topic_id AND t.owner_epoch = k.owner_epoch FOR SHARE
    ) held
), i AS (
    INSERT INTO {entries} (ledger_id, entry_id, append_ms, deliver_at_ms, cumulative_messages, cumulative_bytes, messages,
                           rest_bytes, key_hash, flags, data)
    SELECT e.ledger_id, e.entry_id, e.append_ms, e.deliver_at_ms, e.cumulative_messages, e.cumulative_bytes, e.messages,
           e.rest_bytes, e.key_hash, e.flags, e.data
    FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
                $10::integer[], $11::integer[], $12::integer[], $13::smallint[], $14::bytea[])
         AS e(topic_id, ledger_id, entry_id, append_ms, deliver_at_ms, cumulative_messages, cumulative_bytes, messages,
              rest_bytes, key_hash, flags, data)
    JOIN o USING (topic_id)
)

-- name: append_rest
-- Follows `append`, and inserts the pieces of large entries.
, p AS (
    INSERT INTO {rest} (ledger_id, entry_id, piece, data)
    SELECT p.ledger_id, p.entry_id, p.piece, p.data
    FROM unnest($15::bigint[], $16::bigint[], $17::bigint[], $18::integer[], $19::bytea[])
         AS p(topic_id, ledger_id, entry_id, piece, data)
    JOIN o USING (topic_id)
)

-- name: append_more
-- Follows `append_rest`, inserts the due times of entries that are not due yet, and deletes the outbox rows that the
-- entries came from.
, d AS (
    INSERT INTO vela_delayed_entry (topic_id, deliver_at_ms, ledger_id, entry_id)
    SELECT d.topic_id, d.deliver_at_ms, d.ledger_id, d.entry_id
    FROM unnest($20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[])
         AS d(topic_id, deliver_at_ms, ledger_id, entry_id)
    JOIN o USING (topic_id)
), x AS (
    DELETE FROM vela_outbox WHERE id = ANY (ARRAY(
        SELECT moved.id FROM unnest($24::bigint[], $25::bigint[]) AS moved(topic_id, id) JOIN o USING (topic_id)
    ))
)

-- name: appended
SELECT topic_id FROM o

-- name: lock_owners
-- The large form of `append` begins with this statement, which locks and answers as `append` does. The broker sends it in
-- one message with `copy_entries`, and with `copy_rest` if there are pieces, and the server executes the message as one
-- transaction. The server answers this statement before it waits for the rows of COPY, so the broker sends only the rows of
-- topics that are not fenced.
SELECT topic_id FROM vela_topic_owner
WHERE (topic_id, owner_epoch) IN (SELECT * FROM unnest('{%b}'::bigint[], '{%b}'::bigint[]))
ORDER BY topic_id FOR SHARE

-- name: copy_entries
COPY {entries} (ledger_id, entry_id, append_ms, deliver_at_ms, cumulative_messages, cumulative_bytes, messages, rest_bytes,
                key_hash, flags, data) FROM STDIN (FORMAT binary)

-- name: copy_rest
COPY {rest} (ledger_id, entry_id, piece, data) FROM STDIN (FORMAT binary)

-- name: read
-- A range by primary key. It ends where the data after the first entry would exceed the limit in bytes.
SELECT entry_id, messages, flags, key_hash, deliver_at_ms, append_ms, cumulative_messages, cumulative_bytes,
       CASE rest_bytes WHEN 0 THEN data ELSE data || coalesce((SELECT string_agg(p.data, '') FROM (
           SELECT r.data FROM {rest} r WHERE r.ledger_id = e.ledger_id AND r.entry_id = e.entry_id ORDER BY r.piece
       ) p), '') END
FROM {entries} e WHERE ledger_id = %b AND entry_id >= %b AND entry_id <= %b AND cumulative_bytes <= (
    SELECT cumulative_bytes FROM {entries} WHERE ledger_id = %b AND entry_id = %b
) + %b::bigint ORDER BY entry_id

-- name: read_some
-- Chosen entries of one ledger, for replay.
SELECT entry_id, messages, flags, key_hash, deliver_at_ms, append_ms, cumulative_messages, cumulative_bytes,
       CASE rest_bytes WHEN 0 THEN data ELSE data || coalesce((SELECT string_agg(p.data, '') FROM (
           SELECT r.data FROM {rest} r WHERE r.ledger_id = e.ledger_id AND r.entry_id = e.entry_id ORDER BY r.piece
       ) p), '') END
FROM {entries} e WHERE ledger_id = %b AND entry_id = ANY(%b::bigint[]) ORDER BY entry_id

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
