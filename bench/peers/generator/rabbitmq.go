package main

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

type rabbitmqBroker struct {
	connection *amqp.Connection
	channel    *amqp.Channel
	queue      string
	messages   <-chan amqp.Delivery
	sent       chan func(error) // in order, as the confirmations are
}

var errRefused = errors.New("RabbitMQ did not confirm a message")

// connectRabbitmq makes the quorum queue if it is not there. The client makes no batches.
func connectRabbitmq(o options) broker {
	connection, err := amqp.Dial(o.url)
	must(err)
	channel, err := connection.Channel()
	must(err)
	_, err = channel.QueueDeclare(o.topic, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
	must(err)
	must(channel.Confirm(false))
	made := &rabbitmqBroker{connection: connection, channel: channel, queue: o.topic, sent: make(chan func(error), o.window)}
	go made.takeConfirmations(channel.NotifyPublish(make(chan amqp.Confirmation, o.window)))
	if o.mustConsume {
		consuming, err := connection.Channel()
		must(err)
		must(consuming.Qos(1000, 0, false))
		made.messages, err = consuming.Consume(o.topic, "s", false, false, false, false, nil)
		must(err)
	}
	return made
}

func (b *rabbitmqBroker) publish(payload []byte, done func(error)) {
	b.sent <- done
	must(b.channel.PublishWithContext(context.Background(), "", b.queue, false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: payload}))
}

func (b *rabbitmqBroker) takeConfirmations(confirmations <-chan amqp.Confirmation) {
	for each := range confirmations {
		done := <-b.sent
		if each.Ack {
			done(nil)
		} else {
			done(errRefused)
		}
	}
}

func (b *rabbitmqBroker) flush() {}

func (b *rabbitmqBroker) receive() []byte {
	message := within(b.messages, "a message")
	must(message.Ack(false))
	return message.Body
}

func (b *rabbitmqBroker) close() { must(b.connection.Close()) }
