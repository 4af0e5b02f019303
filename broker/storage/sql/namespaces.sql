-- Namespaces and tenants.

-- name: find
SELECT n.id IS NOT NULL,
       (SELECT count(*) FROM vela_topic WHERE namespace_id = n.id AND parent_id IS NULL),
       (SELECT count(*) FROM vela_namespace o JOIN vela_tenant t ON t.id = o.tenant_id WHERE t.name = %(tenant)s)
FROM (VALUES (1)) AS one
LEFT JOIN (vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id AND t.name = %(tenant)s)
       ON n.name = %(namespace)s

-- name: delete
DELETE FROM vela_namespace n USING vela_tenant t
WHERE t.id = n.tenant_id AND t.name = %(tenant)s AND n.name = %(namespace)s
  AND NOT EXISTS (SELECT FROM vela_topic WHERE namespace_id = n.id)

-- name: delete_empty_tenant
DELETE FROM vela_tenant t WHERE t.name = %s AND NOT t.is_kept AND NOT EXISTS (SELECT FROM vela_namespace n WHERE n.tenant_id = t.id)

-- name: set_tenant
INSERT INTO vela_tenant (name, admin_roles, is_kept, created_at) VALUES (%(name)s, %(admin_roles)s, true, now())
ON CONFLICT (name) DO UPDATE SET admin_roles = EXCLUDED.admin_roles, is_kept = true

-- name: delete_tenant
DELETE FROM vela_tenant t WHERE t.name = %s AND NOT EXISTS (SELECT FROM vela_namespace n WHERE n.tenant_id = t.id)
RETURNING t.id

-- name: tenants
SELECT name FROM vela_tenant ORDER BY name

-- name: tenant
SELECT admin_roles FROM vela_tenant WHERE name = %s

-- name: of_tenant
SELECT n.name FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id WHERE t.name = %s ORDER BY n.name
