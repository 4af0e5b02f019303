-- What the frame of every page shows.

-- name: chrome
SELECT b.host, b.pid, b.seen_at,
       (SELECT count(*) FROM vela_act WHERE state IN ('plan_requested', 'apply_requested')) AS waiting_acts
FROM (SELECT 1) AS one LEFT JOIN vela_broker b ON b.id = 1
