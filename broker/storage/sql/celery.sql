-- Celery's messages, if Celery uses Vela's database (config/celery_transport.py). A row is a message that no worker has taken.

-- name: create
-- UNLOGGED, so that no message waits for a sync of the disk. A crash of PostgreSQL empties the table. Celery beat sends each
-- periodic task again when it is next due.
CREATE UNLOGGED TABLE IF NOT EXISTS celery_message (
    queue text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    payload text NOT NULL,
    PRIMARY KEY (queue, id)
)

-- name: put
-- Stores a message and wakes the workers that listen.
WITH stored AS (
    INSERT INTO celery_message (queue, payload) VALUES (%(queue)s, %(payload)s) RETURNING queue
)
SELECT pg_notify('celery_message', queue) FROM stored

-- name: listen
LISTEN celery_message

-- name: take
-- The oldest message that no other worker has locked. With `=` the subquery runs once, before the delete. With IN the
-- planner may run it for each row, and SKIP LOCKED then finds another message each time: a worker that got several messages
-- at once failed and was restarted.
DELETE FROM celery_message
WHERE queue = %(queue)s AND id = (
    SELECT id FROM celery_message WHERE queue = %(queue)s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING payload

-- name: size
SELECT count(*) FROM celery_message WHERE queue = %(queue)s

-- name: purge
DELETE FROM celery_message WHERE queue = %(queue)s
