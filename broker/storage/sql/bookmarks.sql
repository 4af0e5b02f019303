-- Bookmarks: named positions in topics.

-- name: find
SELECT ledger_id, entry_id FROM vela_bookmark WHERE topic_id = %s AND name = %s

-- name: create
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), b AS (
    INSERT INTO vela_bookmark (topic_id, name, ledger_id, entry_id, until, who, created_at)
    SELECT topic_id, %(name)s, %(ledger_id)s, %(entry_id)s,
           CASE WHEN %(keep_ms)s::bigint > 0 THEN now() + %(keep_ms)s::bigint * interval '1 millisecond' END, %(who)s, now()
    FROM o
    ON CONFLICT (topic_id, name) DO NOTHING
)
SELECT topic_id FROM o

-- name: delete
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), b AS (
    DELETE FROM vela_bookmark b USING o WHERE b.topic_id = o.topic_id AND b.name = %(name)s
)
SELECT topic_id FROM o
