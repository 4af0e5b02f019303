// The load generator for the brokers that are compared. A run does one kind of work and prints its figures as one
// line of JSON.
//
// Python's clients cost more for each message than the brokers do, so this generator is in Go. It uses the clients of
// Apache, NATS and RabbitMQ, and pgx for PostgreSQL.
package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	numberBytes = 8
	patience    = 60 * time.Second
)

// broker is the part of a broker's client that the works need.
type broker interface {
	// publish sends without waiting for the receipt. It calls done once, with the receipt's error.
	publish(payload []byte, done func(error))
	// flush sends what a batch still waits for.
	flush()
	// receive returns the next message's payload and acks it. PGMQ's acks come later, all those of a read together.
	receive() []byte
	close()
}

type options struct {
	connect                      func(options) broker
	url, topic                   string
	payloadBytes, window, count  int
	producers                    int
	isBatched                    bool
	hasTopicsApart               bool
	mustPublish, mustConsume     bool
	perSecond, warmUpS, measureS float64
}

// The figures of a run. Each work fills what it measures.
type figures struct {
	PerS       float64 `json:"per_s,omitempty"`
	P50        float64 `json:"p50_ms,omitempty"`
	P99        float64 `json:"p99_ms,omitempty"`
	P999       float64 `json:"p999_ms,omitempty"`
	LateP99    float64 `json:"late_p99_ms,omitempty"`
	Everything int     `json:"everything"` // messages of the whole run, warm-up included
}

func main() {
	var o options
	system := flag.String("system", "pulsar", "pulsar, nats, rabbitmq or pgmq: the protocol")
	work := flag.String("work", "publish", "publish, fill, drain, cycle or latency")
	flag.StringVar(&o.url, "url", "", "where the broker is")
	flag.StringVar(&o.topic, "topic", "", "topic, or name of the stream")
	flag.IntVar(&o.payloadBytes, "bytes", 1024, "payload")
	flag.IntVar(&o.window, "window", 1000, "messages without a receipt")
	flag.IntVar(&o.count, "count", 0, "fill, drain, cycle: messages")
	flag.IntVar(&o.producers, "producers", 1, "publish: producers, each with a connection and a window")
	flag.BoolVar(&o.hasTopicsApart, "topics-apart", false, "publish: give each producer a topic")
	flag.BoolVar(&o.isBatched, "batched", false, "let the client make batches")
	flag.Float64Var(&o.perSecond, "rate", 1000, "latency: messages a second")
	flag.Float64Var(&o.warmUpS, "warm-up", 2, "seconds that do not count")
	flag.Float64Var(&o.measureS, "measure", 10, "seconds that count")
	flag.Parse()
	o.mustPublish = *work != "drain"
	o.mustConsume = *work == "drain" || *work == "cycle" || *work == "latency"
	o.connect = map[string]func(options) broker{
		"pulsar": connectPulsar, "nats": connectNats, "rabbitmq": connectRabbitmq, "pgmq": connectPgmq}[*system]
	do := map[string]func(broker, options) figures{
		"publish": publish, "fill": fill, "drain": drain, "cycle": cycle, "latency": latency}[*work]
	if o.connect == nil || do == nil {
		fail("no such system or work: %s, %s", *system, *work)
	}
	client := o.connect(o)
	defer client.close()
	must(json.NewEncoder(os.Stdout).Encode(do(client, o)))
}

// publish keeps up to `window` messages of each producer without a receipt, for the warm-up and the measured time. A
// message counts when its receipt has come.
func publish(first broker, o options) figures {
	var receipts atomic.Int64
	var isOver atomic.Bool
	everything := make(chan int)
	for number := range o.producers {
		client := first
		if number > 0 {
			other := o
			if o.hasTopicsApart {
				other.topic = fmt.Sprintf("%s_%d", o.topic, number)
			}
			client = o.connect(other)
			defer client.close()
		}
		go func() { everything <- send(client, o, &receipts, func(int) bool { return !isOver.Load() }) }()
	}
	pause(o.warmUpS)
	before, began := receipts.Load(), time.Now()
	pause(o.measureS)
	count, seconds := receipts.Load()-before, time.Since(began).Seconds()
	isOver.Store(true)
	all := 0
	for range o.producers {
		all += <-everything
	}
	return figures{PerS: float64(count) / seconds, Everything: all}
}

// fill publishes `count` messages.
func fill(client broker, o options) figures {
	var receipts atomic.Int64
	began := time.Now()
	all := send(client, o, &receipts, func(number int) bool { return number < o.count })
	return figures{PerS: float64(all) / time.Since(began).Seconds(), Everything: all}
}

// send publishes numbered messages while mayGo says so, waits for all receipts, and returns how many there were.
func send(client broker, o options, receipts *atomic.Int64, mayGo func(int) bool) int {
	free := make(chan []byte, o.window) // the window: a payload is used again when its receipt has come
	for range o.window {
		free <- randomPayload(o.payloadBytes)
	}
	sent := 0
	for mayGo(sent) {
		payload := within(free, "a receipt")
		binary.BigEndian.PutUint64(payload, uint64(sent))
		client.publish(payload, func(err error) {
			must(err)
			receipts.Add(1)
			free <- payload
		})
		sent++
	}
	client.flush()
	for range o.window {
		within(free, "the last receipts")
	}
	return sent
}

// drain receives `count` stored messages and acks each.
func drain(client broker, o options) figures {
	isSeen := make([]bool, o.count)
	began := time.Now()
	for range o.count {
		take(client, isSeen)
	}
	return figures{PerS: float64(o.count) / time.Since(began).Seconds(), Everything: o.count}
}

// cycle publishes `count` messages and meanwhile receives and acks each.
func cycle(client broker, o options) figures {
	var receipts atomic.Int64
	drained := make(chan bool)
	began := time.Now()
	go func() {
		drain(client, o)
		drained <- true
	}()
	send(client, o, &receipts, func(number int) bool { return number < o.count })
	<-drained
	return figures{PerS: float64(o.count) / time.Since(began).Seconds(), Everything: o.count}
}

// latency sends at a fixed rate. A message's latency counts from the time at which it should have been sent.
func latency(client broker, o options) figures {
	first := int(o.perSecond * o.warmUpS)
	count := first + int(o.perSecond*o.measureS)
	arrivals, lateness := make([]float64, count), make([]float64, count)
	began := time.Now()
	intended := func(number int) time.Time {
		return began.Add(time.Duration(float64(number) / o.perSecond * float64(time.Second)))
	}
	arrived := make(chan bool)
	go func() {
		isSeen := make([]bool, count)
		for range count {
			number := take(client, isSeen)
			arrivals[number] = milliseconds(time.Since(intended(number)))
		}
		arrived <- true
	}()
	for number := range count {
		// Go's timers have whole milliseconds. The system's sleep is more exact.
		if ahead := time.Until(intended(number)); ahead > 0 {
			sleep := syscall.NsecToTimespec(ahead.Nanoseconds())
			_ = syscall.Nanosleep(&sleep, nil)
		}
		lateness[number] = milliseconds(time.Since(intended(number)))
		payload := randomPayload(o.payloadBytes)
		binary.BigEndian.PutUint64(payload, uint64(number))
		client.publish(payload, must)
	}
	within(arrived, "the last messages")
	arrivals, lateness = arrivals[first:], lateness[first:]
	return figures{P50: percentile(arrivals, 50), P99: percentile(arrivals, 99), P999: percentile(arrivals, 99.9),
		LateP99: percentile(lateness, 99), Everything: count}
}

// take receives a message and returns its number. Each message must come once, but in any order, because some brokers
// keep no order.
func take(client broker, isSeen []bool) int {
	number := binary.BigEndian.Uint64(client.receive())
	if number >= uint64(len(isSeen)) || isSeen[number] {
		fail("message %d came, which was never sent or had come before", number)
	}
	isSeen[number] = true
	return int(number)
}

func percentile(values []float64, percent float64) float64 {
	sort.Float64s(values)
	return values[min(len(values)-1, int(percent/100*float64(len(values))))]
}

// randomPayload makes bytes that nothing on the way can compress.
func randomPayload(bytes int) []byte {
	payload := make([]byte, bytes)
	for at := numberBytes; at < bytes; at++ {
		payload[at] = byte(rand.Uint32())
	}
	return payload
}

func within[T any](from <-chan T, what string) T {
	select {
	case value := <-from:
		return value
	default:
	}
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		fail("%s did not come in time", what)
		panic("unreachable")
	}
}

func pause(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }

func milliseconds(of time.Duration) float64 { return of.Seconds() * 1000 }

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}
