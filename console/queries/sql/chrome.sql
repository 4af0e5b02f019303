-- The data in the frame of every page.

-- name: chrome
-- Every time is by the database's clock, so a wrong clock on the console's host cannot make a broker look silent.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms, b.host, b.pid,
       (extract(epoch FROM b.seen_at) * 1000)::bigint AS seen_ms,
       (extract(epoch FROM b.stopped_at) * 1000)::bigint AS stopped_ms,
       (extract(epoch FROM beat.at) * 1000)::bigint AS beat_ms,
       (extract(epoch FROM worker.at) * 1000)::bigint AS worker_ms,
       (SELECT coalesce(jsonb_object_agg(w.namespace, w.acts), '{}') FROM (
           SELECT coalesce(namespace, '') AS namespace, count(*) AS acts FROM vela_act
           WHERE state IN ('plan_requested', 'apply_requested') GROUP BY 1
       ) w) AS waiting_acts
FROM (SELECT 1) AS one
LEFT JOIN vela_broker b ON b.id = 1
LEFT JOIN vela_heartbeat beat ON beat.name = 'beat'
LEFT JOIN vela_heartbeat worker ON worker.name = 'worker'
