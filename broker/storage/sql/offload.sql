-- Files of offloaded ledgers. A job writes them, and the topic's owner attaches them
-- (docs/decisions/0034-offloaded-ledgers.md).

-- name: waiting
-- Files that a job has written and checked, oldest first.
SELECT f.name, f.topic_id, t.name, f.ledger_id, f.entries, f.messages, f.size_bytes, f.checksum
FROM vela_ledger_file f JOIN vela_topic t ON t.id = f.topic_id
WHERE f.state = 'written' ORDER BY f.created_at, f.name LIMIT %(limit)s

-- name: attach
-- After this, readers use the ledger's file. One statement changes file and ledger. No row = fenced. 0 = the ledger was
-- trimmed meanwhile or has another file, or the file is to be deleted. In the first two cases, the file counts as attached
-- although no ledger names it, so `abandon_detached` marks it for deletion. Safe to repeat.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), f AS (
    UPDATE vela_ledger_file f SET state = 'attached', attached_at = coalesce(f.attached_at, now())
    FROM o WHERE f.name = %(name)s AND f.topic_id = o.topic_id AND f.state IN ('written', 'attached')
    RETURNING f.name, f.ledger_id, f.entries
), moved AS (
    UPDATE vela_ledger l SET segment_id = NULL, file_name = f.name
    FROM o, f WHERE l.id = f.ledger_id AND l.topic_id = o.topic_id AND l.state = 'sealed' AND l.entries = f.entries
      AND (l.segment_id IS NOT NULL OR l.file_name = f.name)
    RETURNING l.id
)
SELECT (SELECT count(*) FROM moved) FROM o

-- name: refuse
UPDATE vela_ledger_file SET state = 'deleting' WHERE name = %s AND state = 'written'

-- name: abandon_detached
-- Attached files that no ledger names any more: the ledger was trimmed, or the topic was deleted or truncated. Ids of
-- ledgers are never used again, so such a file is never needed again. `abandon_stale` is a separate statement: if a file's
-- row changes while a statement waits for the row, PostgreSQL checks the new row, but against the ledgers as they were when
-- the statement began.
UPDATE vela_ledger_file f SET state = 'deleting'
WHERE f.state = 'attached' AND NOT EXISTS (SELECT FROM vela_ledger l WHERE l.file_name = f.name)

-- name: abandon_stale
-- Old files whose run ended before they were attached, and files that are not attached and whose topic was deleted.
UPDATE vela_ledger_file f SET state = 'deleting'
WHERE f.state IN ('writing', 'written') AND (
    NOT EXISTS (SELECT FROM vela_topic t WHERE t.id = f.topic_id)
    OR (f.created_at < now() - make_interval(secs => %(after_s)s)
        AND NOT EXISTS (SELECT FROM vela_pipeline_run r WHERE r.write_id = f.write_id AND r.state = 'running')))

-- name: doomed
SELECT f.name FROM vela_ledger_file f
WHERE f.state = 'deleting' AND NOT EXISTS (SELECT FROM vela_ledger l WHERE l.file_name = f.name)
ORDER BY f.created_at, f.name LIMIT %(limit)s

-- name: forget
DELETE FROM vela_ledger_file WHERE name = %s AND state = 'deleting'
