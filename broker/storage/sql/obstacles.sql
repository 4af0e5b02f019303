-- What hinders deliveries, and which consumer of each subscription left last. The broker stores changed rows only, some time
-- after the change.

-- name: upsert_obstacles
INSERT INTO vela_subscription_obstacles (subscription_id, blocked, rate_limited, gap, read_fault, active_consumer,
    first_redeliveries, key_slot, key_consumer, key_waiting_entries, key_is_draining)
SELECT u.* FROM unnest(%b::bigint[], %b::boolean[], %b::boolean[], %b::text[], %b::text[], %b::bigint[], %b::integer[],
    %b::integer[], %b::bigint[], %b::bigint[], %b::boolean[])
    AS u(subscription_id, a, b, c, d, e, f, g, h, i, j) JOIN vela_subscription s ON s.id = u.subscription_id
ON CONFLICT (subscription_id) DO UPDATE SET blocked = EXCLUDED.blocked, rate_limited = EXCLUDED.rate_limited,
    gap = EXCLUDED.gap, read_fault = EXCLUDED.read_fault, active_consumer = EXCLUDED.active_consumer,
    first_redeliveries = EXCLUDED.first_redeliveries, key_slot = EXCLUDED.key_slot, key_consumer = EXCLUDED.key_consumer,
    key_waiting_entries = EXCLUDED.key_waiting_entries, key_is_draining = EXCLUDED.key_is_draining

-- name: upsert_departures
INSERT INTO vela_consumer_departure (subscription_id, name, address, client_version, cause, detail, connected_ms, left_ms)
SELECT u.* FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bigint[],
    %b::bigint[])
    AS u(subscription_id, a, b, c, d, e, f, g) JOIN vela_subscription s ON s.id = u.subscription_id
ON CONFLICT (subscription_id) DO UPDATE SET name = EXCLUDED.name, address = EXCLUDED.address,
    client_version = EXCLUDED.client_version, cause = EXCLUDED.cause, detail = EXCLUDED.detail,
    connected_ms = EXCLUDED.connected_ms, left_ms = EXCLUDED.left_ms

-- name: broker_ended
-- Runs at a broker's start, before the sessions are deleted: turns the consumers of an earlier broker that did not stop
-- properly into departures, and deletes all obstacles.
WITH b AS (DELETE FROM vela_subscription_obstacles)
INSERT INTO vela_consumer_departure (subscription_id, name, address, client_version, cause, detail, connected_ms, left_ms)
SELECT DISTINCT ON (s.id) s.id, c.name, c.address, c.client_version, 'lost', 'its connection ended with the broker',
    c.connected_ms, c.updated_ms
FROM vela_consumer_session c JOIN vela_subscription s ON s.id = c.subscription_id ORDER BY s.id, c.updated_ms DESC
ON CONFLICT (subscription_id) DO UPDATE SET name = EXCLUDED.name, address = EXCLUDED.address,
    client_version = EXCLUDED.client_version, cause = EXCLUDED.cause, detail = EXCLUDED.detail,
    connected_ms = EXCLUDED.connected_ms, left_ms = EXCLUDED.left_ms
