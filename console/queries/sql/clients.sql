-- Connected consumers and producers of all topics. clients.py fills in `{flags}` with all conditions `is_…`, `{wrong}` with
-- the requested one, and `{sorted_by}`, `{type}`, `{beyond}` and `{direction}` from a fixed list of orders. Each order has
-- an index on its column and the key, so that a page reads only its own rows and those that its filters leave out.

-- name: is_blocked
c.blocked

-- name: is_not_reading
NOT c.writable AND c.last_delivery_ms < %(not_reading_before_ms)s

-- name: is_ack_less
c.unacked_messages > 0 AND c.oldest_delivered_ms > 0
AND greatest(c.oldest_delivered_ms, c.last_ack_ms) < %(ackless_before_ms)s

-- name: is_silent
c.permits <= 0 AND NOT c.blocked
AND greatest(c.connected_ms, c.last_flow_ms, c.last_delivery_ms, c.last_ack_ms) < %(silent_before_ms)s

-- name: is_hoarding
-- The cheap conditions come first. EXISTS nearly always ends at the first other consumer that it reads.
CASE WHEN c.unacked_messages < %(hoard_messages)s OR c.subscription_type NOT IN ('Shared', 'Key_Shared') THEN false
     WHEN EXISTS (
         SELECT FROM vela_consumer_session o WHERE o.subscription_id = c.subscription_id AND o.key <> c.key
           AND o.unacked_messages * %(hoard_share)s > c.unacked_messages * (1 - %(hoard_share)s)) THEN false
     ELSE c.unacked_messages >= %(hoard_share)s * (
              SELECT sum(o.unacked_messages) FROM vela_consumer_session o WHERE o.subscription_id = c.subscription_id)
          AND EXISTS (
              SELECT FROM vela_consumer_session o
              WHERE o.subscription_id = c.subscription_id AND o.writable AND NOT o.blocked AND o.permits > 0
                AND o.unacked_messages * %(hoard_times)s <= c.unacked_messages
                AND greatest(o.connected_ms, o.last_delivery_ms) < %(idle_before_ms)s) END

-- name: may_be_hoarding
-- True for every consumer that hoards, and for the others of its subscription. One pass finds these subscriptions.
-- Evaluating `is_hoarding` for each of 100,000 consumers takes ten times as long.
c.subscription_id IN (
    SELECT subscription_id FROM vela_consumer_session GROUP BY subscription_id
    HAVING count(*) > 1 AND max(unacked_messages) >= %(hoard_messages)s
       AND max(unacked_messages) >= %(hoard_share)s * sum(unacked_messages))

-- name: is_old
c.protocol_version <= %(old_protocol)s

-- name: is_refused
c.last_error <> ''

-- name: consumers
SELECT c.key, t.name AS topic_name, t.partition, c.subscription_id, c.subscription_name, c.subscription_type, c.name,
       c.address, c.client_version, c.face, c.protocol_version, c.priority, c.connected_ms, c.permits, c.unacked_messages,
       c.blocked, c.writable, c.messages_out, c.bytes_out, c.messages_acked, c.messages_redelivered, c.message_rate_out,
       c.message_rate_acked, c.message_rate_redelivered, c.last_flow_ms, c.last_delivery_ms, c.last_ack_ms,
       c.oldest_delivered_ms, c.updated_ms, c.properties, {flags} AS flags
FROM vela_consumer_session c
JOIN vela_topic t ON t.id = c.topic_id
WHERE (%(subscriptions)s::bigint[] IS NULL OR c.subscription_id = ANY(%(subscriptions)s::bigint[]))
  AND (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
  AND (%(topic)s = '' OR c.topic_id = ANY(ARRAY(
      SELECT l.id FROM vela_topic b JOIN vela_topic l ON l.id = b.id OR l.parent_id = b.id WHERE b.name = %(topic)s)))
  AND (%(topic_part)s = '' OR t.name ILIKE %(topic_part)s)
  AND (%(subscription)s = '' OR c.subscription_name ILIKE %(subscription)s)
  AND (%(name)s = '' OR c.name ILIKE %(name)s)
  AND (%(address)s = '' OR c.address ILIKE %(address)s)
  AND (%(version)s = '' OR c.client_version ILIKE %(version)s)
  AND {wrong}
  AND ({sorted_by}, c.key) {beyond} (%(after)s::{type}, %(after_key)s)
ORDER BY {sorted_by} {direction}, c.key {direction} LIMIT %(limit)s

-- name: producers
SELECT c.key, c.topic_id, t.name AS topic_name, t.partition, c.name, c.address, c.client_version, c.face, c.protocol_version,
       c.connected_ms, c.access_mode, c.deduplicated, c.messages_in, c.bytes_in, c.message_rate_in, c.byte_rate_in,
       c.last_sequence_id, c.last_send_ms, c.last_error, c.updated_ms, c.properties,
       {flags} AS flags
FROM vela_producer_session c
JOIN vela_topic t ON t.id = c.topic_id
WHERE (%(namespace_ids)s::bigint[] IS NULL OR t.namespace_id = ANY(%(namespace_ids)s))
  AND (%(topic)s = '' OR c.topic_id = ANY(ARRAY(
      SELECT l.id FROM vela_topic b JOIN vela_topic l ON l.id = b.id OR l.parent_id = b.id WHERE b.name = %(topic)s)))
  AND (%(topic_part)s = '' OR t.name ILIKE %(topic_part)s)
  AND (%(name)s = '' OR c.name ILIKE %(name)s)
  AND (%(address)s = '' OR c.address ILIKE %(address)s)
  AND (%(version)s = '' OR c.client_version ILIKE %(version)s)
  AND {wrong}
  AND ({sorted_by}, c.key) {beyond} (%(after)s::{type}, %(after_key)s)
ORDER BY {sorted_by} {direction}, c.key {direction} LIMIT %(limit)s
