package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

type pulsarBroker struct {
	client   pulsar.Client
	producer pulsar.Producer
	consumer pulsar.Consumer
}

func connectPulsar(o options) broker {
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: o.url, Logger: log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil)))})
	must(err)
	made := &pulsarBroker{client: client}
	if o.mustConsume {
		made.consumer, err = client.Subscribe(pulsar.ConsumerOptions{
			Topic: o.topic, SubscriptionName: "s", ReceiverQueueSize: 1000,
			SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest})
		must(err)
	}
	if o.mustPublish {
		made.producer, err = client.CreateProducer(pulsar.ProducerOptions{
			Topic: o.topic, DisableBatching: !o.isBatched, MaxPendingMessages: o.window})
		must(err)
	}
	return made
}

func (b *pulsarBroker) publish(payload []byte, done func(error)) {
	b.producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: payload},
		func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { done(err) })
}

func (b *pulsarBroker) flush() { must(b.producer.FlushWithCtx(context.Background())) }

func (b *pulsarBroker) receive() []byte {
	message := within(b.consumer.Chan(), "a message")
	must(b.consumer.Ack(message))
	return message.Payload()
}

func (b *pulsarBroker) close() {
	if b.consumer != nil {
		b.consumer.Close() // flushes grouped acks
	}
	b.client.Close()
}
