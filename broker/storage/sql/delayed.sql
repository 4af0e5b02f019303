-- Entries that were not due when they were appended; `append_more` in entries.sql writes the rows. A row is needed until
-- its entry is due: after that, log and cursors suffice. Only the topic's owner deletes rows.

-- name: waiting
-- The entries of a topic that wait, by ledger and run of 32,768 entries: two big-endian bytes for each entry. A million
-- consecutive entries are about 31 runs.
SELECT ledger_id, entry_id >> 15, string_agg(int2send((entry_id & 32767)::smallint), ''::bytea)
FROM vela_delayed_entry WHERE topic_id = %s GROUP BY 1, 2

-- name: due_after
-- The next due times, in order of the primary key.
SELECT deliver_at_ms, ledger_id, entry_id FROM vela_delayed_entry
WHERE topic_id = %b AND (deliver_at_ms, ledger_id, entry_id) > (%b, %b, %b)
ORDER BY deliver_at_ms, ledger_id, entry_id LIMIT %b

-- name: prune
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), due AS (
    DELETE FROM vela_delayed_entry d USING o WHERE d.topic_id = o.topic_id AND d.deliver_at_ms <= %(due_through_ms)s
)
SELECT topic_id FROM o

-- name: prune_trimmed
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), trimmed AS (
    DELETE FROM vela_delayed_entry d USING o WHERE d.topic_id = o.topic_id AND d.ledger_id < %(first_ledger)s
)
SELECT topic_id FROM o
