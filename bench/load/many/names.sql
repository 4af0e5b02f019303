-- The statements that names.py executes. Each statement ends with a semicolon at the end of a line.

INSERT INTO vela_tenant (name, created_at) SELECT format('tenant-%%s', n), now() FROM generate_series(0, 9) n;

INSERT INTO vela_namespace (tenant_id, name, policies, created_at)
SELECT t.id, format('team-%%s', n), '{}', now()
FROM generate_series(0, %(namespaces)s - 1) n JOIN vela_tenant t ON t.name = format('tenant-%%s', n %% 10);

CREATE TEMP TABLE place AS
SELECT row_number() OVER (ORDER BY n.id) - 1 AS number, n.id, format('persistent://%%s/%%s/', t.name, n.name) AS prefix
FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id WHERE n.name LIKE 'team-%%';

-- Every hundredth topic is partitioned.
INSERT INTO vela_topic (id, namespace_id, name, partitions, parent_id, partition, properties, policies, created_at)
SELECT %(base)s + n, p.id, format('%%stopic-%%s', p.prefix, lpad(n::text, 7, '0')),
       CASE WHEN n %% 100 = 0 THEN %(partitions)s ELSE 0 END, NULL, -1, '{}', '{}', now() - interval '40 days'
FROM generate_series(0, %(topics)s - 1) n JOIN place p ON p.number = n %% %(namespaces)s;

INSERT INTO vela_topic (id, namespace_id, name, partitions, parent_id, partition, properties, policies, created_at)
SELECT %(base)s + 10000000 + (t.id - %(base)s) * 100 + k, t.namespace_id, format('%%s-partition-%%s', t.name, k), 0,
       t.id, k, '{}', '{}', t.created_at
FROM vela_topic t CROSS JOIN generate_series(0, %(partitions)s - 1) k WHERE t.id >= %(base)s AND t.partitions > 0;

CREATE TEMP TABLE leaf AS
SELECT id, row_number() OVER (ORDER BY id) AS number FROM vela_topic WHERE id >= %(base)s AND partitions = 0;

INSERT INTO vela_topic_owner (topic_id, owner_epoch, owner_token) SELECT id, 0, 0 FROM leaf;

-- Of 1,000 topics 1 is stuck, 4 fall behind and 5 drain. Almost half keep up, and the rest are idle.
INSERT INTO vela_topic_summary (topic_id, messages_in, bytes_in, stored_bytes, message_rate_in, byte_rate_in, producers,
    last_append_ms, max_backlog_messages, subscriptions, worst_subscription, message_rate_acked, updated_ms,
    last_used_ms, state, state_since_ms)
SELECT id, 1000000 + number, 100000000, number * 7919 %% 1000000000, number * 7919 %% 997, number * 7919 %% 99991, 1,
       %(now_ms)s - number * 13 %% 86400000, number * 7919 %% 100003, %(subscriptions)s, 'subscription-0', 50, %(now_ms)s,
       %(now_ms)s, CASE WHEN number %% 1000 = 0 THEN 1 WHEN number %% 200 = 0 THEN 2 WHEN number %% 100 = 0 THEN 4
            WHEN number %% 2 = 0 THEN 6 ELSE 7 END,
       %(now_ms)s - number * 31 %% 86400000
FROM leaf;

INSERT INTO vela_subscription (id, topic_id, name, type, properties, paused, created_at)
SELECT %(base)s + number * 100 + k, id, format('subscription-%%s', k), 'Shared', '{}', false, now() - interval '30 days'
FROM leaf CROSS JOIN generate_series(0, %(subscriptions)s - 1) k;

INSERT INTO vela_cursor (subscription_id, mark_delete_ledger, mark_delete_entry, acked_messages, acked_entries,
    acked_bytes, version)
SELECT id, 1, -1, 1000000, 1000000, 100000000, 0 FROM vela_subscription WHERE id >= %(base)s;

-- The first subscription of a topic has the topic's state; the others are idle.
INSERT INTO vela_subscription_summary (subscription_id, acked_messages, acked_bytes, read_ledger, read_entry, consumers,
    unacked_messages, replay_entries, message_rate_out, message_rate_acked, messages_redelivered, last_used_ms,
    updated_ms, problems, state, state_since_ms)
SELECT s.id, 1000000 + l.number - l.number * 7919 %% 100003, 100000000, 1, 0, 1, 0, 0, 5, 5, 0, %(now_ms)s, %(now_ms)s,
       '{}', CASE WHEN s.id %% 100 > 0 THEN 7 ELSE t.state END, t.state_since_ms
FROM vela_subscription s JOIN leaf l ON l.id = s.topic_id JOIN vela_topic_summary t ON t.topic_id = l.id;

INSERT INTO vela_consumer_session (key, owner_epoch, topic_id, subscription_id, subscription_name, subscription_type,
    name, address, client_version, face, priority, connected_ms, permits, unacked_messages, blocked, writable,
    messages_out, bytes_out, messages_acked, messages_redelivered, last_flow_ms, last_delivery_ms, last_ack_ms,
    updated_ms, properties)
SELECT %(base)s + l.number, 0, l.id, %(base)s + l.number * 100, 'subscription-0', 'Shared',
       format('worker-%%s', l.number), format('10.0.%%s.%%s:4711', l.number / 250 %% 250, l.number %% 250),
       'Pulsar-CPP-v3.7.0', 'binary', 0, %(now_ms)s - l.number, 1000, l.number %% 1000, false, true, 1000000, 100000000,
       1000000, 0, %(now_ms)s, %(now_ms)s, %(now_ms)s, %(now_ms)s, '{}'
FROM leaf l;

INSERT INTO vela_producer_session (key, owner_epoch, topic_id, name, address, client_version, face, connected_ms,
    messages_in, bytes_in, last_sequence_id, last_send_ms, updated_ms, properties)
SELECT %(base)s + l.number, 0, l.id, format('producer-%%s', l.number),
       format('10.1.%%s.%%s:4711', l.number / 250 %% 250, l.number %% 250), 'Pulsar-CPP-v3.7.0', 'binary',
       %(now_ms)s - l.number, 1000000, 100000000, 1000000, %(now_ms)s, %(now_ms)s, '{}'
FROM leaf l;

-- A point for each minute of the last hour, for every tenth topic and its first subscription.
INSERT INTO vela_stats_point_60s (at_ms, topic_id, subscription_id, messages_in, bytes_in, messages_out, messages_acked,
    messages_redelivered, backlog_before, backlog, backlog_most, stored_bytes)
SELECT (%(now_ms)s / 60000 - m) * 60000, l.id, CASE k WHEN 0 THEN 0 ELSE %(base)s + l.number * 100 END,
       CASE k WHEN 0 THEN 300 END, CASE k WHEN 0 THEN 30000 END, 300, 300, 0, 1000 - m, 1001 - m, 1001 - m,
       CASE k WHEN 0 THEN 1000000 END
FROM leaf l CROSS JOIN generate_series(1, 60) m CROSS JOIN generate_series(0, 1) k WHERE l.number %% 10 = 0;
