package main

import (
	"os"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

func lifecycle(admin pulsaradmin.Client, in space) {
	topic := in.topic("t")
	must(admin.Topics().Create(topic, 0))
	last := publish(topic, "k", "old", "new")[1]
	must(admin.Topics().Compact(topic))
	end := time.Now().Add(20 * time.Second)
	for value(admin.Topics().CompactStatus(topic)).Status == utils.RUNNING && time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
	}
	check(value(admin.Topics().CompactStatus(topic)).Status, utils.SUCCESS, "compaction")
	check(value(admin.Topics().GetInternalStats(topic)).CompactedLedger.Entries, int64(1), "compacted entries")
	must(admin.Topics().Unload(topic))
	must(admin.Namespaces().Unload(in.name))
	check(value(admin.Topics().GetInternalStats(topic)).EntriesAddedCounter, int64(2), "entries after unloading")
	ended := value(admin.Topics().Terminate(topic))
	check([]int64{ended.LedgerID, ended.EntryID}, []int64{last.LedgerID, last.EntryID}, "the id of the last message")
	check(strings.Contains(reasonOfRefusal(topic), "is terminated"), true, "publishing to the terminated topic")
}

func lookup(admin pulsaradmin.Client, in space) {
	topic := in.topic("t")
	must(admin.Topics().Create(topic, 0))
	check(value(admin.Topics().Lookup(topic)).BrokerURL, os.Getenv("INTEROP_URL"), "the broker of a topic")
	check(value(admin.Topics().GetBundleRange(topic)), "0x00000000_0xffffffff", "the bundle of a topic")
}

func brokers(admin pulsaradmin.Client, in space) {
	url := os.Getenv("INTEROP_HTTP_URL")
	broker := strings.TrimPrefix(url, "http://")
	check(value(admin.Clusters().List()), []string{"vela"}, "clusters")
	check(value(admin.Clusters().Get("vela")).ServiceURL, url, "the cluster's URL")
	check(value(admin.Brokers().GetActiveBrokers("vela")), []string{broker}, "brokers")
	check(value(admin.Brokers().GetLeaderBroker()), utils.BrokerInfo{BrokerID: broker, ServiceURL: url}, "leader")
	must(admin.Brokers().HealthCheck())
	publish(in.topic("t"), "", "one")
	_, found := value(admin.Brokers().GetOwnedNamespaces("vela", broker))[in.name+"/0x00000000_0xffffffff"]
	check(found, true, "namespaces of the broker")
	check(strings.Contains(value(admin.BrokerStats().GetTopics()), in.name), true, "topics in its memory")
	check(value(admin.Brokers().GetRuntimeConfigurations())["authenticationEnabled"], "true", "settings")
	check(len(value(admin.Brokers().GetDynamicConfigurationNames())), 0, "settings that can change")
	check(len(value(admin.Brokers().GetAllDynamicConfigurations())), 0, "settings that were changed")
}

func refusals(admin pulsaradmin.Client, in space) {
	refused(admin.Namespaces().SetPersistence(in.name, utils.NewPersistencePolicies(1, 1, 1, 0)),
		"Vela stores messages in PostgreSQL")
	_, err := admin.Functions().GetFunctions(tenant, "n")
	refused(err, "Vela has no functions")
	refused(admin.Clusters().Create(utils.ClusterData{Name: "other", ServiceURL: "http://other:8080"}),
		"Vela has one cluster")
	rate := utils.SubscribeRate{SubscribeThrottlingRatePerConsumer: 10, RatePeriodInSecond: 30}
	refused(admin.Namespaces().SetSubscribeRate(in.parsed(), rate), "Vela has no such policy")
}

func token(_ pulsaradmin.Client, in space) {
	app, stranger := connect(os.Getenv("INTEROP_TOKEN")), connect(os.Getenv("INTEROP_FOREIGN_TOKEN"))
	refused(app.Namespaces().CreateNamespace(in.name+"-other"), "the role 'app' may not")
	refused(stranger.Namespaces().CreateNamespace(in.name+"-other"), "no key of this broker signed the token")
}
