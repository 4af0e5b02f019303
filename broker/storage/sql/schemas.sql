-- Schemas by topic. Partitions use the schemas of their parent.

-- name: of_topic
SELECT version, type, name, data, properties FROM vela_schema WHERE topic_name = %s ORDER BY version

-- name: add
-- Compare-and-set on the version: the second of two writers reads the schema that the first one stored, and checks again.
INSERT INTO vela_schema (topic_name, version, type, name, data, properties, created_at)
VALUES (%s, %s, %s, %s, %s, %s, now()) ON CONFLICT (topic_name, version) DO NOTHING RETURNING version
