-- The tokens of clients. The query reads the whole table, which has at most a few hundred rows.

-- name: newest
SELECT id, role, created_by, created_at, expires_at, coalesce(expires_at <= now(), false) AS is_expired,
       revoked_by, revoked_at
FROM vela_token
ORDER BY revoked_at IS NOT NULL, coalesce(expires_at <= now(), false), created_at DESC, id
LIMIT %(limit)s
