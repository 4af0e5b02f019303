package main

import (
	"github.com/apache/pulsar-client-go/pulsaradmin"
	api "github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

// try sets a policy, reads it and removes it. remove is nil if the client cannot remove the policy.
func try[T any](name string, wanted T, get func() (T, error), set func() error, remove func() error) {
	if remove != nil {
		must(remove()) // first, because a new namespace already has a retention
	}
	before := value(get())
	must(set())
	check(value(get()), wanted, name)
	if remove != nil {
		must(remove())
		check(value(get()), before, name+", removed")
	}
}

// limited is try for a policy that is a number.
func limited[S any](
	name string, subject S, number int,
	get func(S) (int, error), set func(S, int) error, remove func(S) error,
) {
	try(name, number,
		func() (int, error) { return get(subject) },
		func() error { return set(subject, number) },
		func() error { return remove(subject) })
}

var (
	retention = utils.RetentionPolicies{RetentionTimeInMinutes: 120, RetentionSizeInMB: 10}
	quota     = utils.BacklogQuota{LimitTime: -1, LimitSize: 10 << 20, Policy: utils.ProducerException}
	quotas    = map[utils.BacklogQuotaType]utils.BacklogQuota{utils.DestinationStorage: quota}
	deletion  = utils.DeleteWhenNoSubscriptions
	inactive  = utils.NewInactiveTopicPolicies(&deletion, 3600, true)
)

const threshold = int64(100 << 20)

func namespacePolicies(admin pulsaradmin.Client, in space) {
	spaces, name, parsed := admin.Namespaces(), in.name, in.parsed()
	try("retention", &retention,
		func() (*utils.RetentionPolicies, error) { return spaces.GetRetention(name) },
		func() error { return spaces.SetRetention(name, retention) },
		func() error { return spaces.RemoveRetention(name) })
	try("backlog quota", quotas,
		func() (map[utils.BacklogQuotaType]utils.BacklogQuota, error) { return spaces.GetBacklogQuotaMap(name) },
		func() error { return spaces.SetBacklogQuota(name, quota, utils.DestinationStorage) },
		func() error { return spaces.RemoveBacklogQuota(name) })
	limited("message TTL", name, 100,
		spaces.GetNamespaceMessageTTL, spaces.SetNamespaceMessageTTL, spaces.RemoveNamespaceMessageTTL)
	namespaceRates(spaces, parsed)
	limited("producers of a topic", parsed, 10,
		spaces.GetMaxProducersPerTopic, spaces.SetMaxProducersPerTopic, spaces.RemoveMaxProducersPerTopic)
	limited("consumers of a topic", parsed, 10,
		spaces.GetMaxConsumersPerTopic, spaces.SetMaxConsumersPerTopic, spaces.RemoveMaxConsumersPerTopic)
	limited("consumers of a subscription", parsed, 10,
		spaces.GetMaxConsumersPerSubscription, spaces.SetMaxConsumersPerSubscription,
		spaces.RemoveMaxConsumersPerSubscription)
	try("compaction threshold", threshold,
		func() (int64, error) { return spaces.GetCompactionThreshold(parsed) },
		func() error { return spaces.SetCompactionThreshold(parsed, threshold) }, nil)
	try("schema compatibility", utils.SchemaCompatibilityStrategyFull,
		func() (utils.SchemaCompatibilityStrategy, error) {
			return spaces.GetSchemaCompatibilityStrategy(parsed)
		},
		func() error {
			return spaces.SetSchemaCompatibilityStrategy(parsed, utils.SchemaCompatibilityStrategyFull)
		},
		func() error {
			return spaces.SetSchemaCompatibilityStrategy(parsed, utils.SchemaCompatibilityStrategyUndefined)
		})
	try("schema validation", true,
		func() (bool, error) { return spaces.GetSchemaValidationEnforced(parsed) },
		func() error { return spaces.SetSchemaValidationEnforced(parsed, true) },
		func() error { return spaces.SetSchemaValidationEnforced(parsed, false) })
	partitions := 2
	creation := utils.TopicAutoCreationConfig{Allow: true, Type: utils.Partitioned, Partitions: &partitions}
	try("automatic topics", &creation,
		func() (*utils.TopicAutoCreationConfig, error) { return spaces.GetTopicAutoCreation(parsed) },
		func() error { return spaces.SetTopicAutoCreation(parsed, creation) },
		func() error { return spaces.RemoveTopicAutoCreation(parsed) })
	try("inactive topics", inactive,
		func() (utils.InactiveTopicPolicies, error) { return spaces.GetInactiveTopicPolicies(parsed) },
		func() error { return spaces.SetInactiveTopicPolicies(parsed, inactive) },
		func() error { return spaces.RemoveInactiveTopicPolicies(parsed) })
	limited("expiration of subscriptions", parsed, 60,
		spaces.GetSubscriptionExpirationTime, spaces.SetSubscriptionExpirationTime,
		spaces.RemoveSubscriptionExpirationTime)
}

func namespaceRates(spaces api.Namespaces, parsed utils.NameSpaceName) {
	dispatch := utils.DispatchRate{
		DispatchThrottlingRateInMsg: 100, DispatchThrottlingRateInByte: 10000, RatePeriodInSecond: 1}
	publish := utils.PublishRate{PublishThrottlingRateInMsg: 100, PublishThrottlingRateInByte: 10000}
	try("dispatch rate", dispatch,
		func() (utils.DispatchRate, error) { return spaces.GetDispatchRate(parsed) },
		func() error { return spaces.SetDispatchRate(parsed, dispatch) }, nil)
	try("dispatch rate of subscriptions", dispatch,
		func() (utils.DispatchRate, error) { return spaces.GetSubscriptionDispatchRate(parsed) },
		func() error { return spaces.SetSubscriptionDispatchRate(parsed, dispatch) }, nil)
	try("publish rate", publish,
		func() (utils.PublishRate, error) { return spaces.GetPublishRate(parsed) },
		func() error { return spaces.SetPublishRate(parsed, publish) }, nil)
}

func topicPolicies(admin pulsaradmin.Client, in space) {
	of, topic := admin.Topics(), in.topic("t")
	must(of.Create(topic, 0))
	try("retention", &retention,
		func() (*utils.RetentionPolicies, error) { return of.GetRetention(topic, false) },
		func() error { return of.SetRetention(topic, retention) },
		func() error { return of.RemoveRetention(topic) })
	try("backlog quota", quotas,
		func() (map[utils.BacklogQuotaType]utils.BacklogQuota, error) {
			return of.GetBacklogQuotaMap(topic, false)
		},
		func() error { return of.SetBacklogQuota(topic, quota, utils.DestinationStorage) },
		func() error { return of.RemoveBacklogQuota(topic, utils.DestinationStorage) })
	limited("message TTL", topic, 100, of.GetMessageTTL, of.SetMessageTTL, of.RemoveMessageTTL)
	try("deduplication", true,
		func() (bool, error) { return of.GetDeduplicationStatus(topic) },
		func() error { return of.SetDeduplicationStatus(topic, true) },
		func() error { return of.RemoveDeduplicationStatus(topic) })
	topicRates(of, topic)
	limited("producers", topic, 10, of.GetMaxProducers, of.SetMaxProducers, of.RemoveMaxProducers)
	limited("consumers", topic, 10, of.GetMaxConsumers, of.SetMaxConsumers, of.RemoveMaxConsumers)
	limited("consumers of a subscription", topic, 10,
		of.GetMaxConsumersPerSubscription, of.SetMaxConsumersPerSubscription, of.RemoveMaxConsumersPerSubscription)
	limited("unacked messages of a consumer", topic, 100,
		of.GetMaxUnackMessagesPerConsumer, of.SetMaxUnackMessagesPerConsumer, of.RemoveMaxUnackMessagesPerConsumer)
	limited("unacked messages of a subscription", topic, 1000,
		of.GetMaxUnackMessagesPerSubscription, of.SetMaxUnackMessagesPerSubscription,
		of.RemoveMaxUnackMessagesPerSubscription)
	limited("subscriptions", topic, 10,
		of.GetMaxSubscriptionsPerTopic, of.SetMaxSubscriptionsPerTopic, of.RemoveMaxSubscriptionsPerTopic)
	limited("size of a message", topic, 1000, of.GetMaxMessageSize, of.SetMaxMessageSize, of.RemoveMaxMessageSize)
	try("compaction threshold", threshold,
		func() (int64, error) { return of.GetCompactionThreshold(topic, false) },
		func() error { return of.SetCompactionThreshold(topic, threshold) },
		func() error { return of.RemoveCompactionThreshold(topic) })
	try("schema compatibility", utils.SchemaCompatibilityStrategyFull,
		func() (utils.SchemaCompatibilityStrategy, error) { return of.GetSchemaCompatibilityStrategy(topic) },
		func() error { return of.SetSchemaCompatibilityStrategy(topic, utils.SchemaCompatibilityStrategyFull) },
		func() error { return of.RemoveSchemaCompatibilityStrategy(topic) })
	delayed := utils.DelayedDeliveryData{TickTime: 1000, Active: true}
	try("delayed delivery", &delayed,
		func() (*utils.DelayedDeliveryData, error) { return of.GetDelayedDelivery(topic) },
		func() error { return of.SetDelayedDelivery(topic, delayed) },
		func() error { return of.RemoveDelayedDelivery(topic) })
	try("inactive topics", inactive,
		func() (utils.InactiveTopicPolicies, error) { return of.GetInactiveTopicPolicies(topic, false) },
		func() error { return of.SetInactiveTopicPolicies(topic, inactive) },
		func() error { return of.RemoveInactiveTopicPolicies(topic) })
	automatic := utils.AutoSubscriptionCreationOverride{AllowAutoSubscriptionCreation: true}
	try("automatic subscriptions", &automatic,
		func() (*utils.AutoSubscriptionCreationOverride, error) { return of.GetAutoSubscriptionCreation(topic) },
		func() error { return of.SetAutoSubscriptionCreation(topic, automatic) },
		func() error { return of.RemoveAutoSubscriptionCreation(topic) })
}

func topicRates(of api.Topics, topic utils.TopicName) {
	dispatch := utils.DispatchRateData{
		DispatchThrottlingRateInMsg: 100, DispatchThrottlingRateInByte: 10000, RatePeriodInSecond: 1}
	publish := utils.PublishRateData{PublishThrottlingRateInMsg: 100, PublishThrottlingRateInByte: 10000}
	try("dispatch rate", &dispatch,
		func() (*utils.DispatchRateData, error) { return of.GetDispatchRate(topic) },
		func() error { return of.SetDispatchRate(topic, dispatch) },
		func() error { return of.RemoveDispatchRate(topic) })
	try("dispatch rate of subscriptions", &dispatch,
		func() (*utils.DispatchRateData, error) { return of.GetSubscriptionDispatchRate(topic) },
		func() error { return of.SetSubscriptionDispatchRate(topic, dispatch) },
		func() error { return of.RemoveSubscriptionDispatchRate(topic) })
	try("publish rate", &publish,
		func() (*utils.PublishRateData, error) { return of.GetPublishRate(topic) },
		func() error { return of.SetPublishRate(topic, publish) },
		func() error { return of.RemovePublishRate(topic) })
}
