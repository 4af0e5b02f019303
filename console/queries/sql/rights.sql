-- Roles, and the objects that a user may see. Relies on vela_grant(user_id, pattern), vela_tenant(name) and
-- vela_namespace(tenant_id, name).

-- name: grants
SELECT g.role, g.pattern, ARRAY(
    SELECT n.id FROM vela_tenant t JOIN vela_namespace n ON n.tenant_id = t.id
    WHERE t.name = split_part(g.pattern, '/', 1) AND split_part(g.pattern, '/', 2) IN ('*', n.name)
    ORDER BY n.id LIMIT %(limit)s
) AS namespace_ids
FROM vela_grant g WHERE g.user_id = %(user_id)s ORDER BY g.pattern

-- name: grants_of_role
-- Relies on vela_permission(tenant, role, permission).
SELECT %(admin)s::int AS role, p.tenant || '/*' AS pattern, ARRAY(
    SELECT n.id FROM vela_tenant t JOIN vela_namespace n ON n.tenant_id = t.id
    WHERE t.name = p.tenant ORDER BY n.id LIMIT %(limit)s
) AS namespace_ids
FROM vela_permission p WHERE p.role = %(role)s AND p.permission = 'admin' ORDER BY p.tenant

-- name: keys
-- The given topics, subscriptions and acts that are in the namespaces that the user may see.
SELECT 'topic:' || t.id AS key FROM vela_topic t
WHERE t.id = ANY(%(topics)s::bigint[]) AND t.namespace_id = ANY(%(namespace_ids)s::bigint[])
UNION ALL
SELECT 'sub:' || s.id FROM vela_subscription s JOIN vela_topic t ON t.id = s.topic_id
WHERE s.id = ANY(%(subscriptions)s::bigint[]) AND t.namespace_id = ANY(%(namespace_ids)s::bigint[])
UNION ALL
SELECT 'act:' || a.id FROM vela_act a
WHERE a.id = ANY(%(acts)s::bigint[]) AND (a.namespace = ANY(%(namespaces)s::text[])
      OR split_part(a.namespace, '/', 1) = ANY(%(tenants)s::text[]))
