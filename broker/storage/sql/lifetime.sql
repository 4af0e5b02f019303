-- Queries that free the space of the log: they seal and trim ledgers, copy ledgers that are still in use out of segments,
-- and drop segments. README.md lists the races.

-- name: seal_ledger
-- Seals the open ledger of a topic without appends, so that its segment can be dropped later. No row = fenced.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), sealed AS (
    UPDATE vela_ledger l SET state = 'sealed', entries = %(entries)s, messages = %(messages)s, size_bytes = %(size_bytes)s,
           first_append_ms = %(first_append_ms)s, last_append_ms = %(last_append_ms)s,
           segment_id = CASE WHEN %(entries)s > 0 THEN l.segment_id END
    FROM o WHERE l.id = %(ledger_id)s AND l.topic_id = o.topic_id AND l.state = 'open'
)
SELECT topic_id FROM o

-- name: trim
-- Trims every ledger up to a given one. The topic's last ledger stays as an empty row, because the next ledger
-- continues its counts.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), newest AS (
    SELECT max(l.id) AS id FROM vela_ledger l JOIN o USING (topic_id)
), gone AS (
    DELETE FROM vela_ledger l USING o, newest
    WHERE l.topic_id = o.topic_id AND l.id <= %(through)s AND l.id < newest.id
), emptied AS (
    UPDATE vela_ledger l SET segment_id = NULL, file_name = NULL, entries_before = l.entries_before + l.entries, entries = 0,
           messages_before = l.messages_before + l.messages, messages = 0,
           bytes_before = l.bytes_before + l.size_bytes, size_bytes = 0, first_append_ms = 0
    FROM newest WHERE l.id = newest.id AND l.id <= %(through)s AND l.state = 'sealed'
)
SELECT topic_id FROM o

-- name: undo_pins
-- Returns where cursors were before acts that can still be undone: only the latest act of each subscription can be undone.
-- The latest act is the one that was applied last. Its id need not be the highest: a plan that was made later may be
-- applied earlier.
SELECT convert_from(a.cursor_before, 'UTF8')::json -> 'mark_delete'
FROM (
    SELECT DISTINCT ON (subscription_id) subscription_id, cursor_before, undo_until
    FROM vela_act WHERE topic_id = %s AND subscription_id IS NOT NULL AND state = 'applied' AND cursor_before IS NOT NULL
    ORDER BY subscription_id, finished_at DESC, id DESC
) a WHERE a.undo_until > now()

-- name: segment_uses
-- Closed segments and how much of them is still in use. Besides its data, a row takes about 128 bytes: header, columns,
-- index.
SELECT s.id, vela_segment_bytes_v1(s.id), count(l.id), count(l.id) FILTER (WHERE l.state = 'open'),
       coalesce(sum(l.size_bytes + 128 * l.entries), 0)::bigint
FROM vela_segment s LEFT JOIN vela_ledger l ON l.segment_id = s.id
WHERE s.state <> 'open' GROUP BY s.id ORDER BY s.id

-- name: segment_count
SELECT count(*) FROM vela_segment

-- name: open_long_lived
SELECT id, vela_segment_bytes_v1(id)
FROM vela_segment WHERE state = 'open' AND long_lived ORDER BY id DESC LIMIT 1

-- name: open_segment
SELECT vela_open_segment_v1(%s, %s)

-- name: drop_segment
SELECT vela_drop_segment_v1(%s)

-- name: ledgers_in
SELECT l.id, l.topic_id, t.name, l.entries
FROM vela_ledger l JOIN vela_topic t ON t.id = l.topic_id
WHERE l.segment_id = %s AND l.state = 'sealed' ORDER BY l.id

-- name: copied_entries
SELECT count(*) FROM {target} WHERE ledger_id = %(ledger_id)s

-- name: copy_piece
-- The next entries of a sealed ledger. The piece ends where the data after its first entry would exceed a limit. Entries
-- never change, so two sessions that copy a piece write the same rows.
WITH chosen AS MATERIALIZED (
    SELECT max(entry_id) AS last FROM {source}
    WHERE ledger_id = %(ledger_id)s AND entry_id BETWEEN %(first)s AND %(last)s
      AND (entry_id = %(first)s OR cumulative_bytes <= %(more_bytes)s::bigint + (
        SELECT cumulative_bytes FROM {source} WHERE ledger_id = %(ledger_id)s AND entry_id = %(first)s))
), copied AS (
    INSERT INTO {target} (ledger_id, entry_id, append_ms, deliver_at_ms, cumulative_messages, cumulative_bytes, messages,
                          rest_bytes, key_hash, flags, data)
    SELECT ledger_id, entry_id, append_ms, deliver_at_ms, cumulative_messages, cumulative_bytes, messages, rest_bytes,
           key_hash, flags, data
    FROM {source} WHERE ledger_id = %(ledger_id)s AND entry_id BETWEEN %(first)s AND (SELECT last FROM chosen)
    ON CONFLICT (ledger_id, entry_id) DO NOTHING RETURNING entry_id
), rest AS (
    INSERT INTO {target_rest} (ledger_id, entry_id, piece, data)
    SELECT ledger_id, entry_id, piece, data
    FROM {source_rest} WHERE ledger_id = %(ledger_id)s AND entry_id BETWEEN %(first)s AND (SELECT last FROM chosen)
    ON CONFLICT (ledger_id, entry_id, piece) DO NOTHING
)
SELECT count(*) FROM copied

-- name: move_ledger
-- After this statement, readers get the copy, which is complete. No row = fenced. 0 = the ledger was trimmed or moved.
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
), moved AS (
    UPDATE vela_ledger l SET segment_id = %(target)s
    FROM o WHERE l.id = %(ledger_id)s AND l.topic_id = o.topic_id AND l.state = 'sealed' AND l.segment_id = %(source)s
    RETURNING l.id
)
SELECT (SELECT count(*) FROM moved) FROM o

-- name: topics_to_visit
-- Topics with entries that no cursor needs, in closed segments or in files; topics with an open ledger in a closed segment;
-- and topics with a backlog and a time to live.
SELECT t.id, t.name FROM vela_topic t
WHERE t.id IN (
    SELECT l.topic_id FROM vela_segment s JOIN vela_ledger l ON l.segment_id = s.id
    WHERE s.state <> 'open' AND (l.state = 'open' OR NOT EXISTS (
        SELECT FROM vela_subscription u JOIN vela_cursor c ON c.subscription_id = u.id
        WHERE u.topic_id = l.topic_id AND (c.mark_delete_ledger, c.mark_delete_entry) < (l.id, l.entries - 1)))
    UNION
    SELECT l.topic_id FROM vela_ledger l
    WHERE l.file_name IS NOT NULL AND NOT EXISTS (
        SELECT FROM vela_subscription u JOIN vela_cursor c ON c.subscription_id = u.id
        WHERE u.topic_id = l.topic_id AND (c.mark_delete_ledger, c.mark_delete_entry) < (l.id, l.entries - 1))
    UNION
    SELECT p.id FROM vela_topic p JOIN vela_namespace n ON n.id = p.namespace_id LEFT JOIN vela_topic parent
        ON parent.id = p.parent_id
    WHERE coalesce(coalesce(parent.policies, p.policies) -> 'message_ttl_ms', n.policies -> 'message_ttl_ms', '0') <> '0'
      AND EXISTS (SELECT FROM vela_topic_summary y WHERE y.topic_id = p.id AND y.max_backlog_messages > 0)
) AND NOT EXISTS (SELECT FROM unnest(%(known)s::bigint[]) AS k(id) WHERE k.id = t.id)
LIMIT %(limit)s

-- name: oldest_pin
-- The cursor that keeps the oldest closed segment: the cursor that is furthest behind, of all topics in that segment.
SELECT t.name, u.name, s.id, s.opened_ms
FROM (SELECT id, opened_ms FROM vela_segment WHERE state <> 'open' AND NOT long_lived ORDER BY id LIMIT 1) s
JOIN vela_ledger l ON l.segment_id = s.id JOIN vela_topic t ON t.id = l.topic_id
JOIN vela_subscription u ON u.topic_id = t.id JOIN vela_cursor c ON c.subscription_id = u.id
WHERE (c.mark_delete_ledger, c.mark_delete_entry) < (l.id, l.entries - 1)
ORDER BY c.mark_delete_ledger, c.mark_delete_entry LIMIT 1

-- name: bookmark_pins
SELECT ledger_id, entry_id FROM vela_bookmark WHERE topic_id = %s AND (until IS NULL OR until > now())
