-- Policies of namespaces and topics.

-- name: of_namespace
SELECT n.policies FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
WHERE t.name = %(tenant)s AND n.name = %(namespace)s

-- name: of_topic
SELECT n.policies AS namespace, coalesce(p.policies, t.policies) AS own, p.name AS parent_name
FROM vela_topic t JOIN vela_namespace n ON n.id = t.namespace_id LEFT JOIN vela_topic p ON p.id = t.parent_id
WHERE t.name = %(name)s
