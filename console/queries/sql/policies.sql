-- Policies of namespaces.

-- name: of_namespace
SELECT n.policies FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id
WHERE t.name = %(tenant)s AND n.name = %(namespace)s
