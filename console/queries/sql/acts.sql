-- The log of acts. Relies on the primary key, vela_act_subscription and the index of undo_of_id.

-- name: of_subscription
SELECT a.id, a.kind, a.state, a.topic_name, a.subscription_name, a.parameters, a.plan, a.result, a.error, a.who,
       a.origin, a.reason, a.undo_of_id, a.undo_until, a.created_at, a.finished_at,
       a.state = 'applied' AND a.undo_until > now()
       AND a.id = (SELECT z.id FROM vela_act z WHERE z.subscription_id = a.subscription_id AND z.state = 'applied'
                   AND z.cursor_before IS NOT NULL ORDER BY z.finished_at DESC, z.id DESC LIMIT 1) AS undoable,
       (SELECT max(u.id) FROM vela_act u WHERE u.undo_of_id = a.id AND u.state = 'applied') AS undone_by_id
FROM vela_act a WHERE a.subscription_id = %(subscription_id)s ORDER BY a.id DESC LIMIT %(limit)s

-- name: log
SELECT a.id, a.kind, a.state, a.topic_name, a.subscription_name, a.parameters, a.plan, a.result, a.error, a.who,
       a.origin, a.reason, a.undo_of_id, a.undo_until, a.created_at, a.finished_at,
       coalesce(a.state = 'applied' AND a.undo_until > now()
       AND a.id = (SELECT z.id FROM vela_act z WHERE z.subscription_id = a.subscription_id AND z.state = 'applied'
                   AND z.cursor_before IS NOT NULL ORDER BY z.finished_at DESC, z.id DESC LIMIT 1), false) AS undoable,
       (SELECT max(u.id) FROM vela_act u WHERE u.undo_of_id = a.id AND u.state = 'applied') AS undone_by_id
FROM vela_act a
WHERE (%(before)s::bigint IS NULL OR a.id < %(before)s)
  AND (%(kind)s = '' OR a.kind = %(kind)s) AND (%(state)s = '' OR a.state = %(state)s)
  AND (%(pattern)s = '' OR a.topic_name ILIKE %(pattern)s OR a.subscription_name ILIKE %(pattern)s
       OR a.who ILIKE %(pattern)s)
ORDER BY a.id DESC LIMIT %(limit)s
