-- The log of acts. Relies on the primary key, vela_act_subscription, vela_act_part, the index of undo_of_id and, for users
-- who may see only some namespaces, on vela_act_namespace and vela_act_tenant. acts.py fills in `{columns}`.

-- name: columns
a.id, a.kind, a.state, a.topic_name, a.subscription_name, a.parameters, a.plan, a.result, a.error, a.who,
a.origin, a.reason, a.undo_of_id, a.undo_until, a.created_at, a.finished_at,
coalesce(a.state = 'applied' AND a.undo_until > now(), false) AND NOT EXISTS (
    SELECT FROM vela_act m WHERE (m.id = a.id OR m.part_of_id = a.id) AND m.cursor_before IS NOT NULL
    AND m.id IS DISTINCT FROM (SELECT z.id FROM vela_act z WHERE z.subscription_id = m.subscription_id
                               AND z.state = 'applied' AND z.cursor_before IS NOT NULL
                               ORDER BY z.finished_at DESC, z.id DESC LIMIT 1)) AS undoable,
(SELECT max(u.id) FROM vela_act u WHERE u.undo_of_id = a.id AND u.state = 'applied') AS undone_by_id

-- name: of_subscription
SELECT {columns}
FROM vela_act a WHERE a.subscription_id = %(subscription_id)s ORDER BY a.id DESC LIMIT %(limit)s

-- name: of_partitioned
-- Acts on several partitions, each as one row, and acts on one partition only.
SELECT {columns}
FROM vela_act a
WHERE a.id IN (
    SELECT w.id FROM vela_act w
    WHERE w.topic_id = %(topic_id)s AND w.subscription_name = %(subscription)s AND w.part_of_id IS NULL
    UNION ALL
    SELECT o.id FROM unnest(%(subscription_ids)s::bigint[]) s(id) CROSS JOIN LATERAL (
        SELECT n.id FROM vela_act n WHERE n.subscription_id = s.id AND n.part_of_id IS NULL
        ORDER BY n.id DESC LIMIT %(limit)s) o)
ORDER BY a.id DESC LIMIT %(limit)s

-- name: log
-- An act on several partitions is one row here. Its parts are in the logs of their subscriptions.
SELECT {columns}
FROM vela_act a
WHERE a.part_of_id IS NULL AND (%(before)s::bigint IS NULL OR a.id < %(before)s)
  AND (%(kind)s = '' OR a.kind = %(kind)s) AND (%(state)s = '' OR a.state = %(state)s)
  AND (%(pattern)s = '' OR a.topic_name ILIKE %(pattern)s OR a.subscription_name ILIKE %(pattern)s
       OR a.who ILIKE %(pattern)s OR a.plan->>'planned_by' ILIKE %(pattern)s)
  AND (%(namespaces)s::text[] IS NULL OR a.namespace = ANY(%(namespaces)s)
       OR split_part(a.namespace, '/', 1) = ANY(%(tenants)s::text[]))
ORDER BY a.id DESC LIMIT %(limit)s

-- name: for_second_person
-- Relies on vela_act_namespace, which alone has the latest ids of a namespace. Before a vacuum, the planner may read all
-- acts of the namespace instead: 30 ms for 40,000 of them.
SELECT {columns}
FROM vela_act a
WHERE a.id = ANY(ARRAY(
    SELECT l.id FROM vela_tenant t JOIN vela_namespace n ON n.tenant_id = t.id CROSS JOIN LATERAL (
        SELECT o.id FROM vela_act o WHERE o.namespace = t.name || '/' || n.name ORDER BY o.id DESC LIMIT 500) l
    WHERE n.policies @> '{{"second_person": true}}'
      AND (%(namespaces)s::text[] IS NULL OR t.name || '/' || n.name = ANY(%(namespaces)s)
           OR t.name = ANY(%(tenants)s::text[]))))
  AND a.state = 'planned' AND split_part(a.origin, ' ', 1) = ANY(%(people)s::text[])
ORDER BY a.id DESC LIMIT %(limit)s
