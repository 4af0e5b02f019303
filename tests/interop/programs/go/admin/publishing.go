package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

type message struct {
	Payload string `json:"payload"`
	Key     string `json:"key,omitempty"`
}

type result struct {
	MessageID string `json:"messageId"`
	ErrorCode int    `json:"errorCode"`
}

func send(topic utils.TopicName, messages []message) (*http.Response, error) {
	body := value(json.Marshal(map[string]any{"messages": messages}))
	url := os.Getenv("INTEROP_HTTP_URL") + "/topics/" + strings.Replace(topic.String(), "://", "/", 1)
	request := value(http.NewRequest(http.MethodPost, url, bytes.NewReader(body)))
	request.Header.Set("Authorization", "Bearer "+os.Getenv("INTEROP_ROOT_TOKEN"))
	request.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(request)
}

// publish stores each message as a separate entry, and returns their ids.
func publish(topic utils.TopicName, key string, payloads ...string) []utils.MessageID {
	var messages []message
	for _, payload := range payloads {
		messages = append(messages, message{payload, key})
	}
	answer := value(send(topic, messages))
	defer answer.Body.Close()
	var decoded struct {
		Results []result `json:"messagePublishResults"`
	}
	must(json.NewDecoder(answer.Body).Decode(&decoded))
	check(len(decoded.Results), len(messages), "results of publishing")
	var ids []utils.MessageID
	for _, each := range decoded.Results {
		check(each.ErrorCode, 0, "publishing")
		parts := strings.Split(each.MessageID, ":")
		ids = append(ids, *value(utils.ParseMessageID(parts[0] + ":" + parts[1])))
	}
	return ids
}

// reasonOfRefusal publishes a message, which must be refused.
func reasonOfRefusal(topic utils.TopicName) string {
	answer := value(send(topic, []message{{Payload: "late"}}))
	defer answer.Body.Close()
	check(answer.StatusCode, http.StatusPreconditionFailed, "status")
	var decoded struct {
		Reason string `json:"reason"`
	}
	must(json.NewDecoder(answer.Body).Decode(&decoded))
	return decoded.Reason
}

// publishBatch stores messages in one entry.
func publishBatch(topic utils.TopicName, payloads ...string) {
	client := value(pulsar.NewClient(pulsar.ClientOptions{
		URL:            os.Getenv("INTEROP_URL"),
		Authentication: pulsar.NewAuthenticationToken(os.Getenv("INTEROP_ROOT_TOKEN")),
		Logger:         log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil))),
	}))
	defer client.Close()
	producer := value(client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic.String(), BatchingMaxPublishDelay: 10 * time.Second}))
	for _, payload := range payloads {
		producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: []byte(payload)},
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			})
	}
	must(producer.FlushWithCtx(context.Background()))
}
