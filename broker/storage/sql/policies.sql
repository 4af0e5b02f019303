-- Policy documents. A change names the document that it was planned on. If another change came first, the statement
-- changes nothing.

-- name: of_namespace
SELECT n.id, n.policies, '{}'::jsonb FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
WHERE t.name = %(tenant)s AND n.name = %(namespace)s

-- name: of_topic
SELECT t.id, t.policies, n.policies FROM vela_topic t JOIN vela_namespace n ON n.id = t.namespace_id
WHERE t.name = %(name)s

-- name: set_namespace
UPDATE vela_namespace SET policies = %(after)s::jsonb WHERE id = %(id)s AND policies = %(before)s::jsonb RETURNING id

-- name: set_topic
UPDATE vela_topic SET policies = %(after)s::jsonb WHERE id = %(id)s AND policies = %(before)s::jsonb RETURNING id

-- name: overriding
-- Topics of a namespace that set one of these policies themselves.
SELECT k.name, count(*) FROM vela_topic t, unnest(%(names)s::text[]) AS k(name)
WHERE t.namespace_id = %(namespace_id)s AND t.policies ? k.name GROUP BY k.name

-- name: in_force
SELECT t.name, n.policies, coalesce(p.policies, t.policies)
FROM vela_topic t JOIN vela_namespace n ON n.id = t.namespace_id LEFT JOIN vela_topic p ON p.id = t.parent_id
WHERE t.name = ANY(%s::text[])
