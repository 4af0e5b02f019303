package main

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type natsBroker struct {
	connection *nats.Conn
	stream     jetstream.JetStream
	topic      string
	messages   jetstream.MessagesContext
	sent       chan sentMessage
}

type sentMessage struct {
	future jetstream.PubAckFuture
	done   func(error)
}

// connectNats makes the stream, in a file, if it is not there. NATS's client makes no batches.
func connectNats(o options) broker {
	connection, err := nats.Connect(o.url)
	must(err)
	stream, err := jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(o.window+1))
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = stream.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: o.topic, Subjects: []string{o.topic}, Storage: jetstream.FileStorage})
	must(err)
	made := &natsBroker{connection: connection, stream: stream, topic: o.topic, sent: make(chan sentMessage, o.window)}
	go made.takeReceipts()
	if o.mustConsume {
		consumer, err := stream.CreateOrUpdateConsumer(ctx, o.topic, jetstream.ConsumerConfig{
			Durable: "s", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000})
		must(err)
		made.messages, err = consumer.Messages(jetstream.PullMaxMessages(1000))
		must(err)
	}
	return made
}

func (b *natsBroker) publish(payload []byte, done func(error)) {
	future, err := b.stream.PublishAsync(b.topic, payload)
	must(err)
	b.sent <- sentMessage{future, done}
}

func (b *natsBroker) takeReceipts() {
	for each := range b.sent {
		select {
		case <-each.future.Ok():
			each.done(nil)
		case err := <-each.future.Err():
			each.done(err)
		}
	}
}

func (b *natsBroker) flush() {}

func (b *natsBroker) receive() []byte {
	message, err := b.messages.Next()
	must(err)
	must(message.Ack())
	return message.Data()
}

func (b *natsBroker) close() {
	if b.messages != nil {
		b.messages.Stop()
	}
	must(b.connection.Drain())
}
