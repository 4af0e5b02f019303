package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

func waiting(admin pulsaradmin.Client, topic utils.TopicName, count int64, what string) {
	check(value(admin.Topics().GetStats(topic)).Subscriptions["s"].MsgBacklog, count, what)
}

func statistics(admin pulsaradmin.Client, in space) {
	topic, parts := in.topic("t"), in.topic("p")
	must(admin.Topics().Create(topic, 0))
	must(admin.Subscriptions().Create(topic, "s", utils.Latest))
	last := publish(topic, "", "one", "two", "three")[2]
	stats := value(admin.Topics().GetStatsWithOption(
		topic, utils.GetStatsOptions{GetPreciseBacklog: true, SubscriptionBacklogSize: true}))
	check([]int64{stats.MsgCounterIn, stats.Subscriptions["s"].MsgBacklog}, []int64{3, 3}, "published and waiting")
	internal := value(admin.Topics().GetInternalStats(topic))
	check(internal.EntriesAddedCounter, int64(3), "entries")
	check(internal.LastConfirmedEntry, fmt.Sprintf("%d:%d", last.LedgerID, last.EntryID), "last entry")
	_, found := internal.Cursors["s"]
	check([]any{len(internal.Cursors), found}, []any{1, true}, "cursors")
	must(admin.Topics().Create(parts, 2))
	publish(in.topic("p-partition-0"), "", "one")
	publish(in.topic("p-partition-1"), "", "two", "three")
	merged := value(admin.Topics().GetPartitionedStats(parts, true))
	check(merged.Metadata.Partitions, 2, "number of partitions")
	counts := map[string]int64{}
	for name, each := range merged.Partitions {
		counts[name[len(name)-1:]] = each.MsgCounterIn
	}
	check(counts, map[string]int64{"0": 1, "1": 2}, "messages of each partition")
}

func subscriptions(admin pulsaradmin.Client, in space) {
	of, topic := admin.Subscriptions(), in.topic("t")
	must(admin.Topics().Create(topic, 0))
	ids := publish(topic, "", "one", "two", "three", "four")
	must(of.Create(topic, "s", utils.Earliest))
	must(of.Create(topic, "late", utils.Latest))
	refused(of.Create(topic, "s", utils.Earliest), "already has a subscription s")
	names := value(of.List(topic))
	slices.Sort(names)
	check(names, []string{"late", "s"}, "subscriptions")
	waiting(admin, topic, 4, "backlog from the beginning")
	must(of.SkipMessages(topic, "s", 3))
	waiting(admin, topic, 1, "backlog after the skip")
	must(of.ResetCursorToMessageID(topic, "s", ids[1]))
	waiting(admin, topic, 3, "backlog after the reset to the second message")
	must(of.ClearBacklog(topic, "s"))
	waiting(admin, topic, 0, "backlog, cleared")
	must(of.ResetCursorToTimestamp(topic, "s", time.Now().Add(-time.Hour).UnixMilli()))
	waiting(admin, topic, 4, "backlog after the reset by time")
	must(of.ExpireMessages(topic, "s", 0))
	waiting(admin, topic, 0, "backlog, expired")
	must(of.Delete(topic, "late"))
	must(of.ResetCursorToMessageID(topic, "s", ids[0]))
	must(of.ExpireAllMessages(topic, 3600))
	waiting(admin, topic, 4, "backlog, of which nothing is an hour old")
	must(admin.Namespaces().ClearNamespaceBacklog(in.parsed()))
	waiting(admin, topic, 0, "backlog, cleared in the namespace")
	must(of.ForceDelete(topic, "s"))
	check(len(value(of.List(topic))), 0, "subscriptions after their deletion")
}

func payloads(found []*utils.Message) []string {
	var all []string
	for _, each := range found {
		all = append(all, string(each.Payload))
	}
	return all
}

func messages(admin pulsaradmin.Client, in space) {
	of, topic := admin.Subscriptions(), in.topic("t")
	must(admin.Topics().Create(topic, 0))
	must(of.Create(topic, "s", utils.Latest))
	first := publish(topic, "k", "one")[0]
	publishBatch(topic, "two", "three")
	check(payloads(value(of.PeekMessages(topic, "s", 3))), []string{"one", "two", "three"}, "peeked")
	last := value(admin.Topics().GetLastMessageID(topic))
	check([]int64{last.LedgerID, last.EntryID}, []int64{first.LedgerID, 1}, "last id")
	check(string(value(of.GetMessageByID(topic, first.LedgerID, 0)).Payload), "one", "by id")
	batch := value(of.GetMessagesByID(topic, first.LedgerID, 1))
	check(payloads(batch), []string{"two", "three"}, "a batch by id")
	found := value(admin.Topics().GetMessageID(topic, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()))
	check([]int64{found.LedgerID, found.EntryID}, []int64{first.LedgerID, 0}, "id by time")
	_, err := of.GetMessageByID(topic, first.LedgerID, 9)
	refused(err, "not found")
}

const (
	article = `{"name":"article","type":"string"}`
	pieces  = `{"name":"pieces","type":"int","default":0}`
)

func schema(fields ...string) utils.PostSchemaPayload {
	return utils.PostSchemaPayload{SchemaType: "AVRO", Schema: fmt.Sprintf(
		`{"type":"record","name":"Order","fields":[%s]}`, strings.Join(fields, ","))}
}

func schemas(admin pulsaradmin.Client, in space) {
	of, parsed := admin.Schemas(), in.topic("t")
	topic := parsed.String()
	narrow, wide, other := schema(article), schema(article, pieces), schema(`{"name":"article","type":"int"}`)
	must(admin.Topics().Create(parsed, 0))
	_, err := of.GetSchemaInfo(topic)
	refused(err, "Schema not found")
	must(of.CreateSchemaByPayload(topic, narrow))
	must(of.CreateSchemaByPayload(topic, wide))
	check(value(of.TestCompatibilityWithPostSchemaPayload(topic, wide)).IsCompatibility, true, "compatible")
	check(value(of.TestCompatibilityWithPostSchemaPayload(topic, other)).IsCompatibility, false, "incompatible")
	refused(of.CreateSchemaByPayload(topic, other), "cannot be read as int")
	latest := value(of.GetSchemaInfoWithVersion(topic))
	check([]any{latest.Version, string(latest.SchemaInfo.Schema)}, []any{int64(1), wide.Schema}, "the latest")
	first := value(of.GetSchemaInfoByVersion(topic, 0))
	check([]string{first.Type, string(first.Schema)}, []string{"AVRO", narrow.Schema}, "the first")
	check(value(of.GetVersionByPayload(topic, narrow)), int64(0), "version of a schema")
	var versions []int64
	for _, each := range value(of.GetAllSchemas(topic)) {
		versions = append(versions, each.Version)
	}
	check(versions, []int64{0, 1}, "all versions")
	must(of.DeleteSchema(topic))
	_, err = of.GetSchemaInfo(topic)
	refused(err, "Schema not found")
}
