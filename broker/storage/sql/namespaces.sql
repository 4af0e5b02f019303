-- Namespaces and tenants.

-- name: find
SELECT n.id IS NOT NULL,
       (SELECT count(*) FROM vela_topic WHERE namespace_id = n.id AND parent_id IS NULL),
       (SELECT count(*) FROM vela_namespace o JOIN vela_tenant t ON t.id = o.tenant_id WHERE t.name = %(tenant)s)
FROM (VALUES (1)) AS one
LEFT JOIN (vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id AND t.name = %(tenant)s)
       ON n.name = %(namespace)s

-- name: delete
-- With the permissions in it: a namespace that gets this name later begins without any.
WITH gone AS (
    DELETE FROM vela_namespace n USING vela_tenant t
    WHERE t.id = n.tenant_id AND t.name = %(tenant)s AND n.name = %(namespace)s
      AND NOT EXISTS (SELECT FROM vela_topic WHERE namespace_id = n.id)
    RETURNING t.name AS tenant, n.name AS namespace
), permissions AS (
    DELETE FROM vela_permission p USING gone WHERE p.tenant = gone.tenant AND p.namespace = gone.namespace
)
SELECT pg_notify('vela_access', '') FROM gone

-- name: delete_empty_tenant
-- With the permissions of its admins.
WITH gone AS (
    DELETE FROM vela_tenant t WHERE t.name = %s AND NOT EXISTS (SELECT FROM vela_namespace n WHERE n.tenant_id = t.id)
    RETURNING t.name
), permissions AS (
    DELETE FROM vela_permission p USING gone WHERE p.tenant = gone.name
)
SELECT pg_notify('vela_access', '') FROM gone
