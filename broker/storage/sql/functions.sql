-- A migration runs this file. A function's name has a version, so that an old broker keeps working with a newer schema.

-- name: functions
-- Returns whether acts on a namespace (tenant/namespace) or a topic (its full name) need a reason, by the policy `protected`.
CREATE OR REPLACE FUNCTION vela_needs_reason_v1(subject text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM string_to_array(regexp_replace(subject, '^[a-z-]+://', ''), '/') AS part
        JOIN vela_tenant t ON t.name = part[1]
        JOIN vela_namespace n ON n.tenant_id = t.id AND n.name = part[2]
        WHERE n.policies @> '{"protected": true}')
$$;

-- Returns when the first entry at or after a position was stored, or NULL if its segment has been dropped.
CREATE OR REPLACE FUNCTION vela_append_ms_v1(segment bigint, ledger bigint, entry bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found bigint;
BEGIN
    EXECUTE format('SELECT append_ms FROM vela_entry_%s WHERE ledger_id = $1 AND entry_id >= $2 ORDER BY entry_id LIMIT 1',
                   segment) INTO found USING ledger, entry;
    RETURN found;
EXCEPTION WHEN undefined_table THEN RETURN NULL;
END $$;

-- Creates the views over the segments again. A reader's open transaction may lock them, so the caller sets lock_timeout and
-- repeats. Appends go to the segment's own table and never wait for this.
CREATE OR REPLACE FUNCTION vela_refresh_entry_views_v1() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    union_all text;
    role_name text;
    table_name text;
BEGIN
    SELECT string_agg(format(
        'SELECT l.topic_id, e.ledger_id, e.entry_id, e.messages, e.flags, e.key_hash, e.append_ms, e.deliver_at_ms,'
        ' e.cumulative_messages, e.cumulative_bytes,'
        ' CASE e.rest_bytes WHEN 0 THEN e.data ELSE e.data || coalesce((SELECT string_agg(p.data, '''') FROM ('
        '  SELECT r.data FROM vela_entry_%1$s_rest r WHERE r.ledger_id = e.ledger_id AND r.entry_id = e.entry_id'
        '  ORDER BY r.piece) p), '''') END AS data'
        ' FROM vela_entry_%1$s e JOIN vela_ledger l ON l.id = e.ledger_id AND l.segment_id = %1$s',
        id), ' UNION ALL ' ORDER BY id)
    INTO union_all FROM vela_segment WHERE state <> 'dropping';
    EXECUTE 'CREATE OR REPLACE VIEW vela_entry AS ' || union_all;
    EXECUTE 'CREATE OR REPLACE VIEW vela_read_v1.entries AS ' || union_all;
    role_name := current_setting('vela.read_role', true);
    IF role_name <> '' THEN
        EXECUTE format('GRANT USAGE ON SCHEMA vela_read_v1 TO %I', role_name);
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA vela_read_v1 TO %I', role_name);
        -- The console reads single segments too: through the view, 64 of them cost a page 136 ms.
        FOR table_name IN
            SELECT c.oid::regclass::text FROM pg_class c
            WHERE c.relname LIKE 'vela\_%' AND c.relkind IN ('r', 'v') AND pg_table_is_visible(c.oid)
        LOOP
            EXECUTE format('GRANT SELECT ON %s TO %I', table_name, role_name);
        END LOOP;
    END IF;
END $$;

-- Returns the size of a segment's two tables and of their indexes.
CREATE OR REPLACE FUNCTION vela_segment_bytes_v1(segment bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT pg_total_relation_size(('vela_entry_' || segment)::regclass)
        + pg_total_relation_size(('vela_entry_' || segment || '_rest')::regclass)
$$;

-- Opens a segment. It creates only the tables, so that appends can begin; the views follow in a separate transaction. A
-- long-lived segment stores copies of the ledgers that keep other segments from being dropped.
CREATE OR REPLACE FUNCTION vela_open_segment_v1(now_ms bigint, is_long_lived boolean DEFAULT false)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    segment bigint;
    table_name text;
BEGIN
    INSERT INTO vela_segment (state, opened_ms, long_lived) VALUES ('open', now_ms, is_long_lived)
        RETURNING id INTO segment;
    EXECUTE format(
        'CREATE TABLE vela_entry_%s ('
        ' ledger_id bigint NOT NULL, entry_id bigint NOT NULL, append_ms bigint NOT NULL, deliver_at_ms bigint NOT NULL,'
        ' cumulative_messages bigint NOT NULL, cumulative_bytes bigint NOT NULL, messages integer NOT NULL,'
        ' rest_bytes integer NOT NULL DEFAULT 0, key_hash integer, flags smallint NOT NULL, data bytea NOT NULL,'
        ' PRIMARY KEY (ledger_id, entry_id))', segment);
    -- This table has the bytes of an entry that do not fit into its row. `pieces.py` says how they are divided.
    EXECUTE format(
        'CREATE TABLE vela_entry_%s_rest ('
        ' ledger_id bigint NOT NULL, entry_id bigint NOT NULL, piece integer NOT NULL, data bytea NOT NULL,'
        ' PRIMARY KEY (ledger_id, entry_id, piece))', segment);
    -- PLAIN, because PostgreSQL need not compress: producers compress payloads if they want to. Long values should not
    -- move into a TOAST table either, whose chunks of 2 kB take twice the CPU time.
    EXECUTE format('ALTER TABLE vela_entry_%s ALTER COLUMN data SET STORAGE PLAIN', segment);
    EXECUTE format('ALTER TABLE vela_entry_%s_rest ALTER COLUMN data SET STORAGE PLAIN', segment);
    -- Rows are inserted once, and dropped with the table. Vacuuming the inserted rows would write each page again while
    -- commits wait for the disk, and an ANALYZE would read 240 MB each time the table has grown by a tenth. Reads by
    -- primary key need only rough statistics (decision 0049).
    FOREACH table_name IN ARRAY ARRAY['vela_entry_' || segment, 'vela_entry_' || segment || '_rest'] LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_insert_threshold = -1)', table_name);
        EXECUTE (SELECT format('ALTER TABLE %I ', table_name) || string_agg(
            format('ALTER %I SET STATISTICS %s', attname, CASE attname WHEN 'data' THEN 0 ELSE 10 END), ', ')
            FROM pg_attribute WHERE attrelid = table_name::regclass AND attnum > 0);
    END LOOP;
    RETURN segment;
END $$;

-- Takes a segment out of the views and drops it. Changes nothing and returns false if the segment is open or has a ledger.
-- The lock on its row keeps new ledgers out, because their foreign key waits for it. The caller sets lock_timeout and repeats.
CREATE OR REPLACE FUNCTION vela_drop_segment_v1(segment bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM vela_segment WHERE id = segment AND state <> 'open' FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM vela_ledger WHERE segment_id = segment) THEN
        RETURN false;
    END IF;
    UPDATE vela_segment SET state = 'dropping' WHERE id = segment;
    PERFORM vela_refresh_entry_views_v1();
    EXECUTE format('DROP TABLE IF EXISTS vela_entry_%1$s, vela_entry_%1$s_rest', segment);
    DELETE FROM vela_segment WHERE id = segment;
    RETURN true;
END $$;

-- Inserts and deletes a topic's row in vela_listed_topic. A partition has no row: the row
-- of its partitioned topic has the sums.
CREATE OR REPLACE FUNCTION vela_list_topic_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO vela_listed_topic (topic_id, namespace_id, name) VALUES (NEW.id, NEW.namespace_id, NEW.name);
    ELSE
        DELETE FROM vela_listed_topic WHERE topic_id = OLD.id;
    END IF;
    RETURN NULL;
END $$;

-- Updates vela_listed_topic after a statement that wrote summaries; `changed` has the rows that it wrote. Rows whose numbers
-- stay the same are not written. The loop updates one row at a time, so that each update uses an index, however old the
-- planner's statistics are. A join might compare each changed row with every listed row. For 1,000 rows the loop takes no
-- longer than a join that uses the index.
CREATE OR REPLACE FUNCTION vela_list_changed_topics_v1() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    c record;
    parent bigint;
    parents bigint[] := '{}';
BEGIN
    FOR c IN SELECT * FROM changed LOOP
        UPDATE vela_listed_topic l
        SET subscriptions = c.subscriptions, backlog_messages = c.max_backlog_messages, stored_bytes = c.stored_bytes,
            message_rate_in = c.message_rate_in, last_append_ms = c.last_append_ms, state = coalesce(c.state, 2047),
            state_since_ms = CASE WHEN c.state IS NULL THEN 0 ELSE c.state_since_ms END
        WHERE l.topic_id = c.topic_id
          AND (l.subscriptions, l.backlog_messages, l.stored_bytes, l.message_rate_in, l.last_append_ms, l.state)
              IS DISTINCT FROM
              (c.subscriptions, c.max_backlog_messages, c.stored_bytes, c.message_rate_in, c.last_append_ms,
               coalesce(c.state, 2047));
        IF NOT FOUND THEN
            SELECT t.parent_id INTO parent FROM vela_topic t WHERE t.id = c.topic_id;
            IF parent IS NOT NULL AND parent <> ALL (parents) THEN
                parents := parents || parent;
            END IF;
        END IF;
    END LOOP;
    FOREACH parent IN ARRAY parents LOOP
        UPDATE vela_listed_topic l
        SET subscriptions = n.subscriptions, backlog_messages = n.backlog_messages, stored_bytes = n.stored_bytes,
            message_rate_in = n.message_rate_in, last_append_ms = n.last_append_ms, state = n.place[1],
            state_since_ms = n.place[2]
        FROM (
            SELECT sum(s.subscriptions) AS subscriptions, sum(s.max_backlog_messages)::bigint AS backlog_messages,
                   sum(s.stored_bytes)::bigint AS stored_bytes, sum(s.message_rate_in) AS message_rate_in,
                   max(s.last_append_ms) AS last_append_ms,
                   min(CASE WHEN s.state IS NULL THEN ARRAY[2047, 0]::bigint[]
                            ELSE ARRAY[s.state, s.state_since_ms] END) AS place
            FROM vela_topic t CROSS JOIN LATERAL (
                SELECT * FROM vela_topic_summary y WHERE y.topic_id = t.id OFFSET 0  -- each by its index
            ) s
            WHERE t.parent_id = parent
        ) n
        WHERE l.topic_id = parent
          AND (l.subscriptions, l.backlog_messages, l.stored_bytes, l.message_rate_in, l.last_append_ms, l.state,
               l.state_since_ms)
              IS DISTINCT FROM
              (n.subscriptions, n.backlog_messages, n.stored_bytes, n.message_rate_in, n.last_append_ms, n.place[1],
               n.place[2]);
    END LOOP;
    RETURN NULL;
END $$;

-- name: tables
-- Everything that Django models cannot express: UNLOGGED for tables that a crash may empty, room for HOT updates, triggers,
-- the read schema.
ALTER TABLE vela_pending_ack SET UNLOGGED;
ALTER TABLE vela_producer_session SET UNLOGGED;
ALTER TABLE vela_consumer_session SET UNLOGGED;
ALTER TABLE vela_parked_pulls SET UNLOGGED;
ALTER TABLE vela_subscription_obstacles SET UNLOGGED;
ALTER TABLE vela_cursor SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE vela_cursor_chunk SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE vela_cursor_chunk ALTER COLUMN bits SET STORAGE MAIN;
ALTER TABLE vela_compacted_entry ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE vela_topic_summary SET (fillfactor = 50);
ALTER TABLE vela_subscription_summary SET (fillfactor = 50);
ALTER TABLE vela_listed_topic SET (fillfactor = 75);
CREATE TRIGGER vela_list AFTER INSERT ON vela_topic FOR EACH ROW WHEN (NEW.parent_id IS NULL)
    EXECUTE FUNCTION vela_list_topic_v1();
CREATE TRIGGER vela_unlist AFTER DELETE ON vela_topic FOR EACH ROW WHEN (OLD.parent_id IS NULL)
    EXECUTE FUNCTION vela_list_topic_v1();
CREATE TRIGGER vela_list_new AFTER INSERT ON vela_topic_summary REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION vela_list_changed_topics_v1();
CREATE TRIGGER vela_list_changed AFTER UPDATE ON vela_topic_summary REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION vela_list_changed_topics_v1();
-- Points and delivery stories are written once and expire soon, so they are vacuumed often, a little each time.
ALTER TABLE vela_stats_point_10s SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE vela_stats_point_60s SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE vela_delivery_story SET (autovacuum_vacuum_scale_factor = 0.05);
CREATE SEQUENCE vela_delivery_id;
CREATE SEQUENCE vela_delivery_story_id;
CREATE SCHEMA IF NOT EXISTS vela_read_v1;
CREATE VIEW vela_read_v1.topics AS
    SELECT id AS topic_id, name, partitions, parent_id, partition, created_at FROM vela_topic;
CREATE VIEW vela_read_v1.ledgers AS
    SELECT id AS ledger_id, topic_id, state, entries, messages, size_bytes, messages_before, bytes_before,
           first_append_ms, last_append_ms, file_name
    FROM vela_ledger WHERE state <> 'gone';
CREATE VIEW vela_read_v1.subscriptions AS
    SELECT s.id AS subscription_id, s.topic_id, s.name, s.type, c.mark_delete_ledger, c.mark_delete_entry,
           c.acked_messages
    FROM vela_subscription s JOIN vela_cursor c ON c.subscription_id = s.id;
CREATE VIEW vela_read_v1.schemas AS
    SELECT topic_name, version, type, name, data, created_at FROM vela_schema WHERE type <> 0;  -- 0: the schema was deleted
CREATE VIEW vela_read_v1.hours AS
    SELECT at_ms, topic_id, subscription_id, messages_in, bytes_in, messages_out, messages_acked, messages_redelivered,
           ack_latencies
    FROM vela_stats_point_3600s;
CREATE VIEW vela_read_v1.pending AS
    SELECT topic_id, subscription_id, ledger_id, first_entry, last_entry, messages, redelivery_count FROM vela_pending_ack;
SELECT vela_open_segment_v1((extract(epoch FROM now()) * 1000)::bigint);
SELECT vela_refresh_entry_views_v1();

-- name: schema_properties
-- A KeyValue schema keeps the types of its two parts in its properties.
CREATE OR REPLACE VIEW vela_read_v1.schemas AS
    SELECT topic_name, version, type, name, data, created_at, properties FROM vela_schema WHERE type <> 0;

-- name: drop_tables
DROP TRIGGER IF EXISTS vela_list ON vela_topic;
DROP TRIGGER IF EXISTS vela_unlist ON vela_topic;
DROP TRIGGER IF EXISTS vela_list_new ON vela_topic_summary;
DROP TRIGGER IF EXISTS vela_list_changed ON vela_topic_summary;
DROP FUNCTION IF EXISTS vela_list_topic_v1();
DROP FUNCTION IF EXISTS vela_list_changed_topics_v1();
DROP VIEW IF EXISTS vela_entry;
DROP SCHEMA IF EXISTS vela_read_v1 CASCADE;
DROP SEQUENCE IF EXISTS vela_delivery_id;
DROP SEQUENCE IF EXISTS vela_delivery_story_id;
DO $$ DECLARE segment bigint; BEGIN
    FOR segment IN SELECT id FROM vela_segment LOOP
        EXECUTE format('DROP TABLE IF EXISTS vela_entry_%1$s, vela_entry_%1$s_rest', segment);
    END LOOP;
END $$;
DROP FUNCTION IF EXISTS vela_needs_reason_v1(text);
DROP FUNCTION IF EXISTS vela_append_ms_v1(bigint, bigint, bigint);
DROP FUNCTION IF EXISTS vela_refresh_entry_views_v1();
DROP FUNCTION IF EXISTS vela_segment_bytes_v1(bigint);
DROP FUNCTION IF EXISTS vela_open_segment_v1(bigint, boolean);
DROP FUNCTION IF EXISTS vela_drop_segment_v1(bigint);
