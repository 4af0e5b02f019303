-- Tenants, namespaces, topics, their owner epochs, ledgers and segments.

-- name: find_topic
-- A partition has its parent's policies.
SELECT t.id, t.partitions, t.partition, t.terminated_at IS NOT NULL, n.policies, coalesce(p.policies, t.policies),
       coalesce(y.last_used_ms, 0), t.producer_epoch, EXISTS (SELECT FROM vela_deduplication d WHERE d.topic_id = t.id)
FROM vela_topic t JOIN vela_namespace n ON n.id = t.namespace_id LEFT JOIN vela_topic p ON p.id = t.parent_id
LEFT JOIN vela_topic_summary y ON y.topic_id = t.id
WHERE t.name = %s

-- name: partitions_of
SELECT partitions FROM vela_topic WHERE name = %s

-- name: namespace_topics
SELECT name FROM vela_topic WHERE partitions = 0 AND name LIKE %s ORDER BY name

-- name: create_tenant
INSERT INTO vela_tenant (name, created_at) VALUES (%s, now()) ON CONFLICT (name) DO NOTHING

-- name: create_namespace
INSERT INTO vela_namespace (tenant_id, name, policies, created_at)
SELECT id, %s, %s, now() FROM vela_tenant WHERE name = %s ON CONFLICT DO NOTHING

-- name: adopt_partitions
-- Makes existing topics with the names of partitions partitions of their topic. A client that connects again to a partition
-- of a deleted topic creates such a topic. Lists name the whole topic from now on.
WITH adopted AS (
    UPDATE vela_topic t SET parent_id = p.id FROM vela_topic p
    WHERE p.name = %(parent)s AND t.name = ANY(%(names)s::text[]) AND t.parent_id IS NULL
    RETURNING t.id
)
DELETE FROM vela_listed_topic l USING adopted WHERE l.topic_id = adopted.id

-- name: create_topics
-- Creates one topic, or partitions of one topic. Only a partitioned topic is a parent: a topic with a partition's name is a
-- topic of its own if the topic without the suffix is not partitioned. After the notification, the broker tells clients that
-- watch the namespace.
WITH made AS (
    INSERT INTO vela_topic (namespace_id, name, partitions, parent_id, partition, properties, policies, created_at)
    SELECT n.id, a.name, %(partitions)s, (SELECT id FROM vela_topic WHERE name = %(parent)s AND partitions > 0), a.partition,
           %(properties)s, '{}', now()
    FROM unnest(%(names)s::text[], %(indexes)s::int[]) AS a(name, partition)
    CROSS JOIN vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
    WHERE t.name = %(tenant)s AND n.name = %(namespace)s
    ON CONFLICT (name) DO NOTHING
    RETURNING name
)
SELECT pg_notify('vela_topics', %(tenant)s::text || '/' || %(namespace)s::text) WHERE EXISTS (SELECT FROM made)

-- name: take
-- Takes ownership of topics, which fences their earlier owner. Waits until that owner's last appends have ended (see
-- entries.sql). A topic that was deleted meanwhile is missing from the answer. The statement does not lock the topics' rows
-- first: a delete locks the owners' rows first, and with the opposite order the two could deadlock.
INSERT INTO vela_topic_owner (topic_id, owner_epoch, owner_token)
SELECT id, 1, %(token)s FROM vela_topic WHERE id = ANY(%(topic_ids)s::bigint[]) ORDER BY id
ON CONFLICT (topic_id) DO UPDATE SET owner_epoch = vela_topic_owner.owner_epoch + 1, owner_token = EXCLUDED.owner_token
RETURNING topic_id, owner_epoch

-- name: advance_epochs
-- Compare-and-set in topic order. A topic that is missing from the answer has another owner now, or was deleted. If the answer
-- was lost, the repeated statement recognises its first try: the epoch is the known value plus one, and the token is this
-- process's own. The statement sets the value instead of adding to it, so that a lost statement changes nothing if it arrives
-- after its repetition.
WITH known AS (
    SELECT o.topic_id, k.owner_epoch + 1 AS advanced FROM vela_topic_owner o
    JOIN unnest(%(topic_ids)s::bigint[], %(epochs)s::bigint[]) AS k(topic_id, owner_epoch) ON k.topic_id = o.topic_id
     AND (o.owner_epoch = k.owner_epoch OR (o.owner_epoch = k.owner_epoch + 1 AND o.owner_token = %(token)s))
    ORDER BY o.topic_id FOR UPDATE OF o
)
UPDATE vela_topic_owner o SET owner_epoch = known.advanced, owner_token = %(token)s
FROM known WHERE o.topic_id = known.topic_id
RETURNING o.topic_id, o.owner_epoch

-- name: owned
-- The topics that still have these epochs. Nobody can advance them before the transaction ends.
SELECT topic_id FROM vela_topic_owner
WHERE (topic_id, owner_epoch) IN (SELECT * FROM unnest(%(topic_ids)s::bigint[], %(epochs)s::bigint[]))
ORDER BY topic_id FOR SHARE

-- name: set_producer_epoch
WITH o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner WHERE topic_id = %(topic_id)s AND owner_epoch = %(owner_epoch)s FOR SHARE
)
UPDATE vela_topic t SET producer_epoch = %(producer_epoch)s FROM o WHERE t.id = o.topic_id RETURNING t.id

-- name: ledgers
SELECT id, segment_id, state, entries, messages, size_bytes, entries_before, messages_before, bytes_before, opened_ms,
       first_append_ms, last_append_ms, file_name
FROM vela_ledger WHERE topic_id = %s AND state IN ('open', 'sealed') ORDER BY id

-- name: roll_ledgers
-- Seals the open ledgers (where one is named) and opens the next ones, in one statement, guarded by the owner's epochs.
-- If the answer to a roll is lost, its repetition leaves an empty ledger open before the last one. Readers treat that
-- ledger as sealed.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(%(topic_ids)s::bigint[], %(epochs)s::bigint[], %(ledger_ids)s::bigint[], %(entries)s::bigint[],
                         %(messages)s::bigint[], %(size_bytes)s::bigint[], %(first_append_ms)s::bigint[],
                         %(last_append_ms)s::bigint[], %(entries_before)s::bigint[], %(messages_before)s::bigint[],
                         %(bytes_before)s::bigint[])
         AS a(topic_id, owner_epoch, ledger_id, entries, messages, size_bytes, first_append_ms, last_append_ms,
              entries_before, messages_before, bytes_before)
), o AS MATERIALIZED (
    SELECT topic_id FROM vela_topic_owner
    WHERE (topic_id, owner_epoch) IN (SELECT topic_id, owner_epoch FROM asked) ORDER BY topic_id FOR SHARE
), sealed AS (
    UPDATE vela_ledger l SET state = 'sealed', entries = a.entries, messages = a.messages, size_bytes = a.size_bytes,
           first_append_ms = a.first_append_ms, last_append_ms = a.last_append_ms
    FROM asked a JOIN o USING (topic_id) WHERE l.id = a.ledger_id AND l.topic_id = a.topic_id AND l.state = 'open'
)
INSERT INTO vela_ledger (topic_id, segment_id, state, entries, messages, size_bytes, entries_before, messages_before,
                         bytes_before, opened_ms, first_append_ms, last_append_ms)
SELECT a.topic_id, %(segment_id)s, 'open', 0, 0, 0, a.entries_before, a.messages_before, a.bytes_before, %(now_ms)s, 0, 0
FROM asked a JOIN o USING (topic_id)
RETURNING topic_id, id

-- name: open_segments
SELECT id, opened_ms FROM vela_segment WHERE state = 'open' AND NOT long_lived ORDER BY id DESC LIMIT 1

-- name: open_segment
SELECT vela_open_segment_v1(%s)

-- name: close_segment
UPDATE vela_segment SET state = 'closed', closed_ms = %s WHERE id = %s AND state = 'open'

-- name: close_older_segments
-- A broker that died after it opened a segment and before it closed the earlier one left both open.
UPDATE vela_segment SET state = 'closed', closed_ms = %s WHERE state = 'open' AND NOT long_lived AND id < %s

-- name: has_role
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)

-- name: refresh_views
SELECT vela_refresh_entry_views_v1()

-- name: segment_size
SELECT vela_segment_bytes_v1(%s)

-- name: of_ledger
SELECT t.name FROM vela_ledger l JOIN vela_topic t ON t.id = l.topic_id WHERE l.id = %s
