package main

import (
	"context"
	"encoding/base64"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	sendersAlone = 8   // connections that send one message a commit: PostgreSQL syncs their commits together
	pgmqBatch    = 100 // messages of a send_batch
	pgmqRead     = 1000
	hiddenS      = 60 // visibility timeout: no run takes longer
	pollMs       = 1
)

type pgmqBroker struct {
	pool  *pgxpool.Pool
	queue string
	sent  chan queued
	read  []string // payloads that were read and not yet received
	ids   []int64  // messages to delete before the next read
}

type queued struct {
	payload []byte
	done    func(error)
}

// connectPgmq makes the queue if it is not there. A message is JSON, so its payload is base64.
func connectPgmq(o options) broker {
	pool, err := pgxpool.New(context.Background(), o.url)
	must(err)
	made := &pgmqBroker{pool: pool, queue: o.topic, sent: make(chan queued, o.window)}
	must(made.call("SELECT pgmq.create($1)", o.topic))
	if o.isBatched {
		go made.send(pgmqBatch)
	} else {
		for range sendersAlone {
			go made.send(1)
		}
	}
	return made
}

func (b *pgmqBroker) call(statement string, values ...any) error {
	_, err := b.pool.Exec(context.Background(), statement, values...)
	return err
}

// send takes the messages that wait, at most `most` of them, and commits them together.
func (b *pgmqBroker) send(most int) {
	for first := range b.sent {
		taken := []queued{first}
		for len(taken) < most && len(b.sent) > 0 {
			taken = append(taken, <-b.sent)
		}
		messages := make([]string, len(taken))
		for at, each := range taken {
			messages[at] = `"` + base64.StdEncoding.EncodeToString(each.payload) + `"`
		}
		err := b.call("SELECT pgmq.send_batch($1, $2::text[]::jsonb[])", b.queue, messages)
		for _, each := range taken {
			each.done(err)
		}
	}
}

func (b *pgmqBroker) publish(payload []byte, done func(error)) { b.sent <- queued{payload, done} }

func (b *pgmqBroker) flush() {}

func (b *pgmqBroker) receive() []byte {
	for len(b.read) == 0 {
		b.deleteRead()
		rows, err := b.pool.Query(context.Background(),
			"SELECT msg_id, message #>> '{}' FROM pgmq.read_with_poll($1, $2, $3, 5, $4)",
			b.queue, hiddenS, pgmqRead, pollMs)
		must(err)
		for rows.Next() {
			var id int64
			var text string
			must(rows.Scan(&id, &text))
			b.ids, b.read = append(b.ids, id), append(b.read, text)
		}
		must(rows.Err())
	}
	payload, err := base64.StdEncoding.DecodeString(b.read[0])
	must(err)
	b.read = b.read[1:]
	return payload
}

func (b *pgmqBroker) deleteRead() {
	if len(b.ids) > 0 {
		must(b.call("SELECT pgmq.delete($1, $2::bigint[])", b.queue, b.ids))
		b.ids = nil
	}
}

func (b *pgmqBroker) close() {
	b.deleteRead()
	b.pool.Close()
}
