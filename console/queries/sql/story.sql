-- Delivery stories. The queries rely on the indexes vela_delivery_story_entry and vela_delivery_story_left_out.

-- name: rows
-- A row has at most 1,024 entries. A row with event 0 may have more: it counts the events that were left out.
SELECT r.* FROM unnest(%(subscriptions)s::bigint[]) AS s(id) CROSS JOIN LATERAL (
    SELECT id, subscription_id, event, at_ms, until_ms, events, redelivery_count, consumer_name, consumer_address, detail
    FROM vela_delivery_story
    WHERE subscription_id = s.id AND ledger_id = %(ledger_id)s AND event <> 0
      AND first_entry BETWEEN %(entry_id)s - 1023 AND %(entry_id)s AND last_entry >= %(entry_id)s
    ORDER BY id DESC LIMIT %(limit)s
) r
UNION ALL
SELECT g.* FROM unnest(%(subscriptions)s::bigint[]) AS s(id) CROSS JOIN LATERAL (
    SELECT max(id) AS id, s.id AS subscription_id, 0::smallint AS event, min(at_ms) AS at_ms, max(until_ms) AS until_ms,
           sum(events)::bigint AS events, 0 AS redelivery_count, '' AS consumer_name, '' AS consumer_address, '' AS detail
    FROM vela_delivery_story
    WHERE subscription_id = s.id AND ledger_id = %(ledger_id)s AND event = 0
      AND first_entry <= %(entry_id)s AND last_entry >= %(entry_id)s
    HAVING count(*) > 0
) g

-- name: acts
-- Applied acts that moved these cursors. Relies on vela_act_subscription.
SELECT a.* FROM unnest(%(subscriptions)s::bigint[]) AS s(id) CROSS JOIN LATERAL (
    SELECT id, subscription_id, kind, who, (extract(epoch FROM finished_at) * 1000)::bigint AS finished_ms,
           result->>'before' AS before, result->>'after' AS after, plan->'pinned'->>'how' AS how,
           plan->'pinned'->>'position' AS position, plan->'pinned'->>'remaining' AS remaining,
           result->>'letter_topic' AS letter_topic, result->'inside'->>'position' AS inside, undo_of_id AS undo_of
    FROM vela_act
    WHERE subscription_id = s.id AND state = 'applied' AND result->>'after' IS NOT NULL
      AND finished_at >= to_timestamp(%(since_ms)s / 1000.0)
    ORDER BY id DESC LIMIT %(limit)s
) a
