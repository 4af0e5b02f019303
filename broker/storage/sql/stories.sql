-- Delivery stories: the events of runs of entries on a subscription. The broker appends rows once a second.

-- name: new_ids
SELECT nextval('vela_delivery_story_id') FROM generate_series(1, %s)

-- name: add
INSERT INTO vela_delivery_story (id, subscription_id, event, ledger_id, first_entry, last_entry, at_ms, until_ms, events,
    redelivery_count, consumer_name, consumer_address, detail, expires_ms)
SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::smallint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],
    %b::bigint[], %b::bigint[], %b::integer[], %b::text[], %b::text[], %b::text[], %b::bigint[])
ON CONFLICT (id) DO NOTHING

-- name: expire
-- The index on expires_ms finds the oldest rows.
DELETE FROM vela_delivery_story WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM vela_delivery_story WHERE expires_ms <= %(now_ms)s ORDER BY expires_ms LIMIT %(limit)s
))

-- name: remove_beyond
-- Ids ascend, so the distance from the newest id is the number of rows, or a little more.
DELETE FROM vela_delivery_story WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM vela_delivery_story
    WHERE id <= (SELECT max(id) FROM vela_delivery_story) - %(most_rows)s ORDER BY id LIMIT %(limit)s
))
