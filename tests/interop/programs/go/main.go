// Apache's Go client asks each question of tests/interop/tables.py, and prints "ok NAME" or "failed NAME: reason".
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

const (
	wait    = 20 * time.Second
	silence = 300 * time.Millisecond
	order   = `{"type":"record","name":"Order","fields":[{"name":"article","type":"string"}]}`
	other   = `{"type":"record","name":"Order","fields":[{"name":"article","type":"int"}]}`
)

var prefix = os.Getenv("INTEROP_PREFIX")

type article struct {
	Article string `json:"article"`
}

func connect(url, token, trust string) pulsar.Client {
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL:                   url,
		Authentication:        pulsar.NewAuthenticationToken(token),
		TLSTrustCertsFilePath: trust,
		TLSValidateHostname:   trust != "",
		OperationTimeout:      5 * time.Second,
		ConnectionTimeout:     5 * time.Second,
		Logger:                log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	must(err)
	return client
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(is bool, format string, values ...any) {
	if !is {
		panic(fmt.Errorf(format, values...))
	}
}

func consumer(client pulsar.Client, options pulsar.ConsumerOptions) pulsar.Consumer {
	if options.SubscriptionName == "" {
		options.SubscriptionName = "s"
	}
	made, err := client.Subscribe(options)
	must(err)
	return made
}

func publish(client pulsar.Client, topic string, from, to int) {
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
	must(err)
	defer producer.Close()
	for number := from; number < to; number++ {
		_, err := producer.Send(context.Background(), &pulsar.ProducerMessage{
			Payload: []byte(strconv.Itoa(number)), Key: fmt.Sprintf("key-%d", number%10)})
		must(err)
	}
}

func receive(from pulsar.Consumer, within time.Duration) (pulsar.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return from.Receive(ctx)
}

func number(message pulsar.Message) int {
	value, err := strconv.Atoi(string(message.Payload()))
	must(err)
	return value
}

func take(from pulsar.Consumer, count int) []int {
	var numbers []int
	for range count {
		message, err := receive(from, wait)
		must(err)
		numbers = append(numbers, number(message))
		must(from.Ack(message))
	}
	return numbers
}

func numbers(from, to int) string {
	var all []int
	for each := from; each < to; each++ {
		all = append(all, each)
	}
	return fmt.Sprint(all)
}

func sorted(values []int) string {
	sort.Ints(values)
	return fmt.Sprint(values)
}

func produceAndConsume(client pulsar.Client) {
	topic := prefix + "-plain"
	from := consumer(client, pulsar.ConsumerOptions{Topic: topic})
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, BatchingMaxMessages: 10})
	must(err)
	for each := range 100 {
		text := strconv.Itoa(each)
		producer.SendAsync(context.Background(), &pulsar.ProducerMessage{
			Payload: []byte(text), Key: "k" + text, Properties: map[string]string{"n": text},
		}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, _ error) {})
	}
	must(producer.FlushWithCtx(context.Background()))
	for each := range 100 {
		message, err := receive(from, wait)
		must(err)
		text := strconv.Itoa(each)
		check(string(message.Payload()) == text && message.Key() == "k"+text && message.Properties()["n"] == text,
			"got %s %s %v for %s", message.Payload(), message.Key(), message.Properties(), text)
		must(from.Ack(message))
	}
}

func exclusive(client pulsar.Client) {
	consumer(client, pulsar.ConsumerOptions{Topic: prefix + "-exclusive"})
	_, err := client.Subscribe(pulsar.ConsumerOptions{Topic: prefix + "-exclusive", SubscriptionName: "s"})
	check(err != nil && strings.Contains(err.Error(), "ConsumerBusy"), "the second consumer: %v", err)
}

func failover(client pulsar.Client) {
	topic := prefix + "-failover"
	first := consumer(client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Failover, Name: "a"})
	second := consumer(client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Failover, Name: "b"})
	publish(client, topic, 0, 10)
	halves := drain([2]pulsar.Consumer{first, second}, 10)
	active, standby := first, second
	if len(halves[0]) == 0 {
		active, standby = second, first
	}
	check(len(halves[0])*len(halves[1]) == 0, "both got messages")
	active.Close()
	publish(client, topic, 10, 20)
	found := fmt.Sprint(take(standby, 10))
	check(found == numbers(10, 20), "the standby got %s", found)
}

func both(client pulsar.Client, topic string, kind pulsar.SubscriptionType) [2][]pulsar.Message {
	options := pulsar.ConsumerOptions{Topic: topic, Type: kind, ReceiverQueueSize: 5}
	consumers := [2]pulsar.Consumer{consumer(client, options), consumer(client, options)}
	publish(client, topic, 0, 100)
	return drain(consumers, 100)
}

func drain(consumers [2]pulsar.Consumer, count int) [2][]pulsar.Message {
	var halves [2][]pulsar.Message
	until := time.Now().Add(wait)
	for len(halves[0])+len(halves[1]) < count {
		check(time.Now().Before(until), "got %d and %d", len(halves[0]), len(halves[1]))
		for index, from := range consumers {
			for {
				message, err := receive(from, silence)
				if err != nil {
					break
				}
				must(from.Ack(message))
				halves[index] = append(halves[index], message)
			}
		}
	}
	return halves
}

func shared(client pulsar.Client) {
	halves := both(client, prefix+"-shared", pulsar.Shared)
	check(len(halves[0]) > 0 && len(halves[1]) > 0, "got %d and %d", len(halves[0]), len(halves[1]))
	var all []int
	for _, message := range append(halves[0], halves[1]...) {
		all = append(all, number(message))
	}
	check(sorted(all) == numbers(0, 100), "got %v", all)
}

func keyShared(client pulsar.Client) {
	halves := both(client, prefix+"-key-shared", pulsar.KeyShared)
	where := map[string]int{}
	for index, half := range halves {
		for _, message := range half {
			before, known := where[message.Key()]
			check(!known || before == index, "%s went to both consumers", message.Key())
			where[message.Key()] = index
		}
	}
	check(len(where) == 10, "keys: %v", where)
}

func schema(client pulsar.Client) {
	topic := prefix + "-schema"
	typed := pulsar.NewJSONSchema(order, nil)
	from := consumer(client, pulsar.ConsumerOptions{Topic: topic, Schema: typed})
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: typed})
	must(err)
	_, err = producer.Send(context.Background(), &pulsar.ProducerMessage{Value: &article{Article: "tea"}})
	must(err)
	message, err := receive(from, wait)
	must(err)
	var value article
	must(message.GetSchemaValue(&value))
	check(value.Article == "tea", "got %v", value)
	_, err = client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewJSONSchema(other, nil)})
	check(err != nil && strings.Contains(err.Error(), "IncompatibleSchema"), "the other schema: %v", err)
}

func seek(client pulsar.Client) {
	topic := prefix + "-seek"
	from := consumer(client, pulsar.ConsumerOptions{Topic: topic})
	publish(client, topic, 0, 10)
	found := fmt.Sprint(take(from, 10))
	check(found == numbers(0, 10), "got %s", found)
	must(from.SeekByTime(time.UnixMilli(0))) // the Go client's Seek does not take the earliest id
	found = fmt.Sprint(take(from, 10))
	check(found == numbers(0, 10), "after the seek it got %s", found)
}

func deadLetters(client pulsar.Client) {
	topic := prefix + "-poison"
	dead := consumer(client, pulsar.ConsumerOptions{Topic: topic + "-dead"})
	from := consumer(client, pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 100 * time.Millisecond,
		DLQ: &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: topic + "-dead"},
	})
	publish(client, topic, 0, 1)
	for range 2 {
		message, err := receive(from, wait)
		must(err)
		from.Nack(message)
	}
	_, err := receive(from, time.Second)
	check(err != nil, "the consumer got it a third time")
	check(fmt.Sprint(take(dead, 1)) == "[0]", "another dead letter")
}

func reader(client pulsar.Client) {
	publish(client, prefix+"-reader", 0, 10)
	from, err := client.CreateReader(pulsar.ReaderOptions{
		Topic: prefix + "-reader", StartMessageID: pulsar.EarliestMessageID()})
	must(err)
	for each := range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		message, err := from.Next(ctx)
		cancel()
		must(err)
		check(number(message) == each, "got %d for %d", number(message), each)
	}
	check(!from.HasNext(), "there is another message")
}

func partitions(client pulsar.Client) {
	topic := prefix + "-partitioned"
	found, err := client.TopicPartitions(topic)
	must(err)
	check(len(found) == 3, "partitions: %v", found)
	from := consumer(client, pulsar.ConsumerOptions{Topic: topic})
	publish(client, topic, 0, 30)
	taken := take(from, 30)
	check(sorted(taken) == numbers(0, 30), "got %v", taken)
}

func pattern(client pulsar.Client) {
	for _, name := range []string{"a", "b"} {
		producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: prefix + "-pattern-" + name})
		must(err)
		producer.Close()
	}
	from := consumer(client, pulsar.ConsumerOptions{
		TopicsPattern: "persistent://public/default/" + prefix + "-pattern-.*"})
	publish(client, prefix+"-pattern-a", 0, 5)
	publish(client, prefix+"-pattern-b", 5, 10)
	taken := take(from, 10)
	check(sorted(taken) == numbers(0, 10), "got %v", taken)
}

func token(_ pulsar.Client) {
	stranger := connect(os.Getenv("INTEROP_URL"), os.Getenv("INTEROP_FOREIGN_TOKEN"), "")
	defer stranger.Close()
	_, err := stranger.CreateProducer(pulsar.ProducerOptions{Topic: prefix + "-token"})
	check(err != nil, "a foreign token was not refused")
}

func tls(_ pulsar.Client) {
	url := os.Getenv("INTEROP_TLS_URL")
	trusting := connect(url, os.Getenv("INTEROP_TOKEN"), os.Getenv("INTEROP_TRUST"))
	defer trusting.Close()
	publish(trusting, prefix+"-tls", 0, 1)
	stranger := connect(url, os.Getenv("INTEROP_TOKEN"), os.Getenv("INTEROP_FOREIGN_TRUST"))
	defer stranger.Close()
	_, err := stranger.CreateProducer(pulsar.ProducerOptions{Topic: prefix + "-tls"})
	check(err != nil, "a foreign authority was not refused")
}

func reconnect(client pulsar.Client) {
	topic := prefix + "-reconnect"
	from := consumer(client, pulsar.ConsumerOptions{Topic: topic})
	publish(client, topic, 0, 1)
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: true, SendTimeout: time.Minute})
	must(err)
	fmt.Println("kill")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	check(answer == "killed\n", "answer %q", answer)
	for each := 1; each < 20; each++ {
		_, err := producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(each))})
		must(err)
	}
	seen := map[int]bool{}
	for len(seen) < 20 {
		message, err := receive(from, wait)
		must(err)
		seen[number(message)] = true
		must(from.Ack(message))
	}
}

func ask(name string, question func(pulsar.Client)) {
	defer func() {
		if reason := recover(); reason != nil {
			fmt.Printf("failed %s: %s\n", name, strings.ReplaceAll(fmt.Sprint(reason), "\n", " "))
		}
	}()
	client := connect(os.Getenv("INTEROP_URL"), os.Getenv("INTEROP_TOKEN"), "")
	defer client.Close()
	question(client)
	fmt.Println("ok", name)
}

func main() {
	check(prefix != "", "%w", errors.New("INTEROP_PREFIX is not set"))
	ask("produce-and-consume", produceAndConsume)
	ask("exclusive", exclusive)
	ask("failover", failover)
	ask("shared", shared)
	ask("key-shared", keyShared)
	ask("schema", schema)
	ask("seek", seek)
	ask("dead-letters", deadLetters)
	ask("reader", reader)
	ask("partitions", partitions)
	ask("pattern", pattern)
	ask("token", token)
	ask("tls", tls)
	ask("reconnect", reconnect)
}
