-- Namespaces and tenants.

-- name: find
SELECT n.id IS NOT NULL,
       (SELECT count(*) FROM vela_topic WHERE namespace_id = n.id AND parent_id IS NULL),
       (SELECT count(*) FROM vela_namespace o JOIN vela_tenant t ON t.id = o.tenant_id WHERE t.name = %(tenant)s),
       EXISTS (SELECT FROM vela_tenant WHERE name = %(tenant)s AND is_kept)
FROM (VALUES (1)) AS one
LEFT JOIN (vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id AND t.name = %(tenant)s)
       ON n.name = %(namespace)s

-- name: delete
-- Also deletes the permissions in the namespace: a namespace that gets this name later begins without permissions.
WITH gone AS (
    DELETE FROM vela_namespace n USING vela_tenant t
    WHERE t.id = n.tenant_id AND t.name = %(tenant)s AND n.name = %(namespace)s
      AND NOT EXISTS (SELECT FROM vela_topic WHERE namespace_id = n.id)
    RETURNING t.name AS tenant, n.name AS namespace
), permissions AS (
    DELETE FROM vela_permission p USING gone WHERE p.tenant = gone.tenant AND p.namespace = gone.namespace
)
SELECT pg_notify('vela_access', '') FROM gone

-- name: delete_tenant
-- Deletes a tenant that has no namespace, and the permissions of its admins. A tenant that was made on request (is_kept) is
-- deleted only on request.
WITH gone AS (
    DELETE FROM vela_tenant t WHERE t.name = %(name)s AND (NOT t.is_kept OR %(even_if_kept)s)
      AND NOT EXISTS (SELECT FROM vela_namespace n WHERE n.tenant_id = t.id)
    RETURNING t.name
), permissions AS (
    DELETE FROM vela_permission p USING gone WHERE p.tenant = gone.name
)
SELECT pg_notify('vela_access', '') FROM gone

-- name: make_tenant
INSERT INTO vela_tenant (name, is_kept, created_at) VALUES (%s, true, now())
ON CONFLICT (name) DO UPDATE SET is_kept = true

-- name: tenants
SELECT name FROM vela_tenant ORDER BY name

-- name: tenant
SELECT ARRAY(SELECT p.role FROM vela_permission p
             WHERE p.tenant = t.name AND p.namespace = '' AND p.permission = 'admin' ORDER BY p.role)
FROM vela_tenant t WHERE t.name = %s

-- name: granted_admins
-- A tenant may have admins before it exists.
SELECT role FROM vela_permission WHERE tenant = %s AND namespace = '' AND permission = 'admin' ORDER BY role

-- name: of_tenant
SELECT n.name FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id WHERE t.name = %s ORDER BY n.name
