-- Connected clients, and the summaries by which lists are sorted. The broker stores changed rows only, at most once a second.

-- name: upsert_consumers
INSERT INTO vela_consumer_session (key, owner_epoch, topic_id, subscription_id, subscription_name, subscription_type, name,
    address, client_version, face, priority, connected_ms, permits, unacked_messages, blocked, writable, messages_out,
    bytes_out, messages_acked, messages_redelivered, message_rate_out, message_rate_acked, message_rate_redelivered,
    last_flow_ms, last_delivery_ms, last_ack_ms, oldest_delivered_ms, updated_ms, properties, protocol_version)
SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::text[],
    %b::text[], %b::text[], %b::text[], %b::integer[], %b::bigint[], %b::bigint[], %b::bigint[], %b::boolean[],
    %b::boolean[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::float8[], %b::float8[], %b::float8[],
    %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %t::jsonb[], %b::integer[])
ON CONFLICT (key) DO UPDATE SET owner_epoch = EXCLUDED.owner_epoch, permits = EXCLUDED.permits,
    unacked_messages = EXCLUDED.unacked_messages, blocked = EXCLUDED.blocked, writable = EXCLUDED.writable,
    messages_out = EXCLUDED.messages_out, bytes_out = EXCLUDED.bytes_out, messages_acked = EXCLUDED.messages_acked,
    messages_redelivered = EXCLUDED.messages_redelivered, message_rate_out = EXCLUDED.message_rate_out,
    message_rate_acked = EXCLUDED.message_rate_acked, message_rate_redelivered = EXCLUDED.message_rate_redelivered,
    last_flow_ms = EXCLUDED.last_flow_ms, last_delivery_ms = EXCLUDED.last_delivery_ms,
    last_ack_ms = EXCLUDED.last_ack_ms, oldest_delivered_ms = EXCLUDED.oldest_delivered_ms,
    updated_ms = EXCLUDED.updated_ms

-- name: upsert_producers
INSERT INTO vela_producer_session (key, owner_epoch, topic_id, name, address, client_version, face, connected_ms,
    messages_in, bytes_in, message_rate_in, byte_rate_in, last_sequence_id, last_send_ms, updated_ms, properties,
    protocol_version, access_mode, deduplicated, last_error)
SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[],
    %b::bigint[], %b::bigint[], %b::bigint[], %b::float8[], %b::float8[], %b::bigint[], %b::bigint[], %b::bigint[],
    %t::jsonb[], %b::integer[], %b::text[], %b::boolean[], %b::text[])
ON CONFLICT (key) DO UPDATE SET owner_epoch = EXCLUDED.owner_epoch, messages_in = EXCLUDED.messages_in,
    bytes_in = EXCLUDED.bytes_in, message_rate_in = EXCLUDED.message_rate_in, byte_rate_in = EXCLUDED.byte_rate_in,
    last_sequence_id = EXCLUDED.last_sequence_id, last_send_ms = EXCLUDED.last_send_ms,
    updated_ms = EXCLUDED.updated_ms, deduplicated = EXCLUDED.deduplicated, last_error = EXCLUDED.last_error

-- name: delete_consumers
DELETE FROM vela_consumer_session WHERE key = ANY(%b::bigint[])

-- name: delete_producers
DELETE FROM vela_producer_session WHERE key = ANY(%b::bigint[])

-- name: forget_all
-- At a broker's start: clients of an earlier broker are not connected any more. Their subscriptions and topics count as used
-- until now.
WITH c AS (
    DELETE FROM vela_consumer_session
), s AS (
    UPDATE vela_subscription_summary SET consumers = 0, last_used_ms = %(now_ms)s WHERE consumers > 0
), t AS (
    UPDATE vela_topic_summary SET producers = 0, last_used_ms = %(now_ms)s WHERE producers > 0
)
DELETE FROM vela_producer_session

-- name: upsert_topic_summaries
INSERT INTO vela_topic_summary (topic_id, messages_in, bytes_in, stored_bytes, producers, message_rate_in, byte_rate_in,
    last_append_ms, max_backlog_messages, subscriptions, worst_subscription, message_rate_acked, last_used_ms, updated_ms,
    state, state_since_ms)
SELECT u.* FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::integer[], %b::float8[], %b::float8[],
    %b::bigint[], %b::bigint[], %b::integer[], %b::text[], %b::float8[], %b::bigint[], %b::bigint[], %b::smallint[],
    %b::bigint[]) AS u(topic_id, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) JOIN vela_topic t ON t.id = u.topic_id
ON CONFLICT (topic_id) DO UPDATE SET messages_in = EXCLUDED.messages_in, bytes_in = EXCLUDED.bytes_in,
    stored_bytes = EXCLUDED.stored_bytes, producers = EXCLUDED.producers, message_rate_in = EXCLUDED.message_rate_in,
    byte_rate_in = EXCLUDED.byte_rate_in, last_append_ms = EXCLUDED.last_append_ms,
    max_backlog_messages = EXCLUDED.max_backlog_messages, subscriptions = EXCLUDED.subscriptions,
    worst_subscription = EXCLUDED.worst_subscription,
    message_rate_acked = EXCLUDED.message_rate_acked, last_used_ms = EXCLUDED.last_used_ms,
    updated_ms = EXCLUDED.updated_ms, state = EXCLUDED.state,
    state_since_ms = CASE WHEN vela_topic_summary.state IS NOT DISTINCT FROM EXCLUDED.state
                          THEN vela_topic_summary.state_since_ms ELSE EXCLUDED.state_since_ms END

-- name: upsert_subscription_summaries
INSERT INTO vela_subscription_summary (subscription_id, acked_messages, acked_bytes, read_ledger, read_entry,
    consumers, unacked_messages, replay_entries, message_rate_out, message_rate_acked, messages_redelivered, last_used_ms,
    updated_ms, problems, state, state_since_ms, drain_s)
SELECT u.* FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::integer[], %b::bigint[],
    %b::bigint[], %b::float8[], %b::float8[], %b::bigint[], %b::bigint[], %b::bigint[], %t::jsonb[],
    %b::smallint[], %b::bigint[], %b::bigint[])
    AS u(subscription_id, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) JOIN vela_subscription s ON s.id = u.subscription_id
ON CONFLICT (subscription_id) DO UPDATE SET acked_messages = EXCLUDED.acked_messages,
    acked_bytes = EXCLUDED.acked_bytes, read_ledger = EXCLUDED.read_ledger, read_entry = EXCLUDED.read_entry,
    consumers = EXCLUDED.consumers, unacked_messages = EXCLUDED.unacked_messages,
    replay_entries = EXCLUDED.replay_entries, message_rate_out = EXCLUDED.message_rate_out,
    message_rate_acked = EXCLUDED.message_rate_acked, messages_redelivered = EXCLUDED.messages_redelivered,
    last_used_ms = EXCLUDED.last_used_ms, updated_ms = EXCLUDED.updated_ms, problems = EXCLUDED.problems,
    state = EXCLUDED.state,
    state_since_ms = CASE WHEN vela_subscription_summary.state = EXCLUDED.state
                          THEN vela_subscription_summary.state_since_ms ELSE EXCLUDED.state_since_ms END,
    drain_s = EXCLUDED.drain_s

-- name: judge_unloaded
-- Sets the state of subscriptions that the owner has not reported since `before_ms`: no client consumes from them.
WITH unused AS MATERIALIZED (
    SELECT s.id, s.topic_id, n.messages_in - u.acked_messages AS backlog
    FROM vela_subscription_summary u
    JOIN vela_subscription s ON s.id = u.subscription_id
    JOIN vela_topic_summary n ON n.topic_id = s.topic_id
    WHERE u.state = ANY(%(passing)s::smallint[]) AND u.updated_ms < %(before_ms)s LIMIT %(limit)s
), delayed AS MATERIALIZED (
    SELECT t.topic_id, (
        SELECT count(*) FROM vela_delayed_entry d WHERE d.topic_id = t.topic_id AND d.deliver_at_ms > %(now_ms)s
    ) AS entries
    FROM (SELECT DISTINCT topic_id FROM unused) t
)
UPDATE vela_subscription_summary u
SET state = CASE WHEN j.backlog > d.entries THEN %(stuck)s ELSE %(idle)s END, state_since_ms = %(now_ms)s, drain_s = NULL
FROM unused j JOIN delayed d ON d.topic_id = j.topic_id WHERE u.subscription_id = j.id

-- name: judge_unloaded_topics
UPDATE vela_topic_summary n SET state = w.state, state_since_ms = %(now_ms)s
FROM (
    SELECT n.topic_id, min(u.state) AS state
    FROM vela_topic_summary n
    JOIN vela_subscription s ON s.topic_id = n.topic_id
    JOIN vela_subscription_summary u ON u.subscription_id = s.id
    WHERE n.state = ANY(%(passing)s::smallint[]) AND n.updated_ms < %(before_ms)s
    GROUP BY n.topic_id, n.state
    HAVING min(u.state) <> n.state LIMIT %(limit)s
) w WHERE n.topic_id = w.topic_id

-- name: notify_pages
SELECT pg_notify('vela_page', %s)
