-- Pulls that wait for a message, for the console. The broker stores the topics that changed, at most once a second.

-- name: upsert
INSERT INTO vela_parked_pulls (topic_id, pulls, oldest, updated_ms)
SELECT * FROM unnest(%b::bigint[], %b::integer[], %t::jsonb[], %b::bigint[])
ON CONFLICT (topic_id) DO UPDATE SET pulls = EXCLUDED.pulls, oldest = EXCLUDED.oldest, updated_ms = EXCLUDED.updated_ms

-- name: delete
DELETE FROM vela_parked_pulls WHERE topic_id = ANY(%b::bigint[])

-- name: forget_all
-- At a broker's start: the connections of an earlier broker are gone.
DELETE FROM vela_parked_pulls
