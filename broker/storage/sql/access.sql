-- Permissions of roles, and revoked tokens. Every writer notifies the broker, which has all of this in memory.

-- name: permissions
SELECT tenant, namespace, topic, subscription, role, permission FROM vela_permission

-- name: permissions_of_namespace
-- The permissions on a namespace and on its topics and subscriptions.
SELECT tenant, namespace, topic, subscription, role, permission FROM vela_permission
WHERE tenant = %(tenant)s AND namespace = %(namespace)s

-- name: revoked
-- Expired tokens are refused anyway.
SELECT id FROM vela_token WHERE revoked_at IS NOT NULL AND (expires_at IS NULL OR expires_at > now())

-- name: set_permissions
-- Replaces all permissions of these roles on this one subject. Safe to repeat.
WITH gone AS (
    DELETE FROM vela_permission
    WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND topic = %(topic)s AND subscription = %(subscription)s
      AND role = ANY(%(roles)s::text[]) AND permission <> ALL(%(permissions)s::text[])
), added AS (
    INSERT INTO vela_permission (tenant, namespace, topic, subscription, role, permission)
    SELECT %(tenant)s, %(namespace)s, %(topic)s, %(subscription)s, r, p
    FROM unnest(%(roles)s::text[]) AS r CROSS JOIN unnest(%(permissions)s::text[]) AS p
    ON CONFLICT DO NOTHING
)
SELECT pg_notify('vela_access', '')

-- name: set_roles
-- Replaces the roles that have this permission on this one subject. Safe to repeat.
WITH gone AS (
    DELETE FROM vela_permission
    WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND topic = %(topic)s AND subscription = %(subscription)s
      AND permission = %(permission)s AND role <> ALL(%(roles)s::text[])
), added AS (
    INSERT INTO vela_permission (tenant, namespace, topic, subscription, role, permission)
    SELECT %(tenant)s, %(namespace)s, %(topic)s, %(subscription)s, r, %(permission)s FROM unnest(%(roles)s::text[]) AS r
    ON CONFLICT DO NOTHING
)
SELECT pg_notify('vela_access', '')

-- name: changed
SELECT pg_notify('vela_access', '')
