-- The data of a diagnosis that no other block of a subscription's page reads.

-- name: around
-- One row for each subscription: its topic, policies, the consumer that left last, the pause, and the processes. Every join
-- finds at most one row. The slowest cursor is the slowest among the subscriptions of this topic.
SELECT s.id, n.policies AS namespace_policies, coalesce(p.policies, t.policies) AS topic_policies,
       y.last_append_ms, y.producers,
       h.blocked, h.rate_limited, h.gap, h.read_fault, h.active_consumer, h.first_redeliveries, h.key_slot, h.key_consumer,
       h.key_waiting_entries, h.key_is_draining,
       d.name AS left_name, d.address AS left_address, d.client_version AS left_version, d.cause AS left_cause,
       d.detail AS left_detail, d.left_ms,
       a.who AS paused_by, a.finished_at AS paused_at, a.reason AS paused_reason,
       slow.name AS slowest_name, slow.acked_bytes AS slowest_acked_bytes,
       x.name AS letters_topic, x.messages AS letters_messages, x.backlog_messages AS letters_backlog,
       x.subscriptions AS letters_subscriptions, x.consumers AS letters_consumers,
       g.id AS segment_id, g.closed_ms AS segment_closed_ms, g.ledgers AS segment_ledgers,
       b.host AS broker_host, b.seen_at AS broker_seen_at,
       (SELECT at FROM vela_heartbeat WHERE name = 'beat') AS beat_at,
       (SELECT at FROM vela_heartbeat WHERE name = 'worker') AS worker_at,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS database_ms
FROM vela_subscription s
JOIN vela_topic t ON t.id = s.topic_id
JOIN vela_namespace n ON n.id = t.namespace_id
LEFT JOIN vela_topic p ON p.id = t.parent_id
LEFT JOIN vela_topic_summary y ON y.topic_id = t.id
LEFT JOIN vela_subscription_obstacles h ON h.subscription_id = s.id
LEFT JOIN vela_consumer_departure d ON d.subscription_id = s.id
LEFT JOIN vela_broker b ON b.id = 1
LEFT JOIN LATERAL (
    SELECT who, finished_at, reason FROM vela_act
    WHERE subscription_id = s.id AND kind = 'pause' AND state = 'applied' ORDER BY finished_at DESC, id DESC LIMIT 1
) a ON s.paused
LEFT JOIN LATERAL (
    SELECT z.name, c.acked_bytes FROM vela_subscription z JOIN vela_cursor c ON c.subscription_id = z.id
    WHERE z.topic_id = t.id ORDER BY c.acked_bytes, z.id LIMIT 1
) slow ON true
LEFT JOIN LATERAL (
    SELECT q.name, coalesce(sum(m.messages_in), 0)::bigint AS messages,
           coalesce(sum(m.max_backlog_messages), 0)::bigint AS backlog_messages,
           sum(r.subscriptions)::bigint AS subscriptions, sum(r.consumers)::bigint AS consumers
    FROM vela_topic q
    JOIN vela_topic l ON l.id = q.id OR l.parent_id = q.id
    LEFT JOIN vela_topic_summary m ON m.topic_id = l.id
    CROSS JOIN LATERAL (
        SELECT count(*) AS subscriptions, coalesce(sum(u.consumers), 0) AS consumers
        FROM vela_subscription z LEFT JOIN vela_subscription_summary u ON u.subscription_id = z.id WHERE z.topic_id = l.id
    ) r
    WHERE q.name = coalesce(p.name, t.name) || '-' || s.name || '-DLQ'
    GROUP BY q.id
) x ON true
LEFT JOIN LATERAL (
    SELECT o.id, o.closed_ms, (SELECT count(*) FROM vela_ledger l WHERE l.segment_id = o.id) AS ledgers
    FROM vela_segment o WHERE o.state <> 'dropping' AND NOT o.long_lived ORDER BY o.id LIMIT 1
) g ON true
WHERE s.id = ANY(%(subscriptions)s::bigint[])

-- name: delayed
-- Entries that are not due yet, by due time, which is the order of the primary key. The limit for each topic bounds the cost
-- of a page.
SELECT p.topic_id, z.ledger_id, z.entry_id, z.deliver_at_ms
FROM unnest(%(topics)s::bigint[]) AS p(topic_id)
CROSS JOIN LATERAL (
    SELECT d.ledger_id, d.entry_id, d.deliver_at_ms FROM vela_delayed_entry d
    WHERE d.topic_id = p.topic_id AND d.deliver_at_ms > %(now_ms)s ORDER BY d.deliver_at_ms LIMIT %(limit)s
) z
ORDER BY p.topic_id, z.deliver_at_ms

-- name: database
-- PostgreSQL hides the activity of other roles from a role without pg_read_all_stats: then `is_visible` is false. A broker that
-- waits for its predecessor's advisory lock does not count as blocked. A wait counts from the request for the lock, because
-- the statement may be much older. Viewers see the waiting statement, so its literals (password hashes, session data) are
-- replaced before the text is cut. A literal that PostgreSQL itself has cut off has no closing quote.
WITH c AS MATERIALIZED (
    SELECT pid, application_name, state, xact_start, query, wait_event_type = 'Lock'
           AND wait_event <> 'advisory' AND application_name LIKE 'vela%%' AS waits
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
), l AS MATERIALIZED (
    SELECT pid, min(waitstart) AS since FROM pg_locks WHERE NOT granted GROUP BY pid
), w AS MATERIALIZED (
    SELECT pid, query, (pg_blocking_pids(pid))[1] AS blocking_pid, (SELECT l.since FROM l WHERE l.pid = c.pid) AS since
    FROM c WHERE waits ORDER BY since NULLS LAST LIMIT 1
)
SELECT (SELECT coalesce(bool_and(state IS NOT NULL), true) FROM c) AS is_visible,
       (SELECT count(*) FROM c WHERE waits) AS waiting_statements,
       coalesce(extract(epoch FROM clock_timestamp() - w.since), 0)::float8 AS longest_wait_s,
       coalesce(left(
           regexp_replace(
               regexp_replace(w.query, $re$\m[eE]'([^'\\]|\\.|'')*'?|'([^']|'')*'?|\$\w*\$.*|--[^\n]*$re$, '?', 'g'),
               '(?<![\w$])\d[\w.]*', '?', 'g'),
           200), '') AS waiting_query,
       coalesce(w.blocking_pid, 0) AS blocking_pid,
       coalesce((SELECT application_name FROM c WHERE c.pid = w.blocking_pid), '') AS blocking_program,
       coalesce(extract(epoch FROM clock_timestamp() - o.xact_start), 0)::float8 AS longest_transaction_s,
       coalesce(o.pid, 0) AS transaction_pid, coalesce(o.application_name, '') AS transaction_program,
       coalesce(o.state, '') AS transaction_state
FROM (SELECT 1) AS one
LEFT JOIN w ON true
LEFT JOIN LATERAL (
    SELECT pid, application_name, state, xact_start FROM c WHERE xact_start IS NOT NULL ORDER BY xact_start LIMIT 1
) o ON true
