package main

import (
	"slices"
	"strings"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

func tenants(admin pulsaradmin.Client, in space) {
	data := utils.TenantData{
		Name: strings.ReplaceAll(in.name, "/", "-"), AdminRoles: []string{"a", "b"}, AllowedClusters: []string{"vela"}}
	must(admin.Tenants().Create(data))
	refused(admin.Tenants().Create(data), "Tenant already exist")
	found := value(admin.Tenants().Get(data.Name))
	check(found.AdminRoles, []string{"a", "b"}, "created")
	check(found.AllowedClusters, []string{"vela"}, "its clusters")
	data.AdminRoles = []string{"c"}
	must(admin.Tenants().Update(data))
	check(value(admin.Tenants().Get(data.Name)).AdminRoles, []string{"c"}, "updated")
	check(slices.Contains(value(admin.Tenants().List()), data.Name), true, "listed")
	must(admin.Tenants().Delete(data.Name))
	check(slices.Contains(value(admin.Tenants().List()), data.Name), false, "listed after its deletion")
	_, err := admin.Tenants().Get(data.Name)
	refused(err, "Tenant does not exist")
}

func namespaces(admin pulsaradmin.Client, in space) {
	other := space{in.name + "-other"}
	must(admin.Namespaces().CreateNamespace(other.name))
	refused(admin.Namespaces().CreateNamespace(other.name), "Namespace already exists")
	check(slices.Contains(value(admin.Namespaces().GetNamespaces(tenant)), other.name), true, "listed")
	policies := value(admin.Namespaces().GetPolicies(other.name))
	check(policies.ReplicationClusters, []string{"vela"}, "its clusters")
	topic := other.topic("t")
	must(admin.Topics().Create(topic, 0))
	check(value(admin.Namespaces().GetTopics(other.name)), []string{topic.String()}, "its topics")
	refused(admin.Namespaces().DeleteNamespace(other.name), "Cannot delete non empty namespace")
	must(admin.Topics().Delete(topic, false, true))
	must(admin.Namespaces().DeleteNamespace(other.name))
	check(slices.Contains(value(admin.Namespaces().GetNamespaces(tenant)), other.name), false, "listed after its deletion")
	_, err := admin.Namespaces().GetPolicies(other.name)
	refused(err, "Namespace does not exist")
}

func permissions(admin pulsaradmin.Client, in space) {
	type granted = map[string][]utils.AuthAction
	both := []utils.AuthAction{"consume", "produce"}
	spaces := admin.Namespaces()
	must(spaces.GrantNamespacePermission(in.parsed(), "r", both))
	check(value(spaces.GetNamespacePermissions(in.parsed())), granted{"r": both}, "of the namespace")
	must(spaces.RevokeNamespacePermission(in.parsed(), "r"))
	check(value(spaces.GetNamespacePermissions(in.parsed())), granted{}, "of the namespace, revoked")
	must(spaces.GrantSubPermission(in.parsed(), "s", []string{"r"}))
	check(value(spaces.GetSubPermissions(in.parsed())), map[string][]string{"s": {"r"}}, "of a subscription")
	must(spaces.RevokeSubPermission(in.parsed(), "s", "r"))
	check(value(spaces.GetSubPermissions(in.parsed())), map[string][]string{}, "of a subscription, revoked")
	topic := in.topic("t")
	must(admin.Topics().Create(topic, 0))
	must(admin.Topics().GrantPermission(topic, "r", both[1:]))
	check(value(admin.Topics().GetPermissions(topic)), granted{"r": both[1:]}, "of the topic")
	must(admin.Topics().RevokePermission(topic, "r"))
	check(value(admin.Topics().GetPermissions(topic)), granted{}, "of the topic, revoked")
}

func topics(admin pulsaradmin.Client, in space) {
	topic, parts := in.topic("t"), in.topic("p")
	must(admin.Topics().CreateWithProperties(topic, 0, map[string]string{"a": "b"}))
	refused(admin.Topics().Create(topic, 0), "This topic already exists")
	check(value(admin.Topics().GetProperties(topic)), map[string]string{"a": "b"}, "its properties")
	must(admin.Topics().Create(parts, 2))
	refused(admin.Topics().Create(parts, 2), "This topic already exists")
	must(admin.Topics().Update(parts, 3))
	refused(admin.Topics().Update(parts, 1), "Number of partitions")
	check(value(admin.Topics().GetMetadata(parts)).Partitions, 3, "number of partitions")
	check(value(admin.Topics().GetMetadata(topic)).Partitions, 0, "of no partitions")
	partitioned, every, err := admin.Topics().List(in.parsed())
	must(err)
	check(partitioned, []string{parts.String()}, "partitioned topics")
	slices.Sort(every)
	check(every, []string{
		parts.String() + "-partition-0", parts.String() + "-partition-1", parts.String() + "-partition-2", topic.String(),
	}, "all topics")
	must(admin.Topics().Delete(topic, false, true))
	must(admin.Topics().Delete(parts, false, false))
	partitioned, every, err = admin.Topics().List(in.parsed())
	must(err)
	check(len(partitioned)+len(every), 0, "topics after their deletion")
	_, err = admin.Topics().GetStats(topic)
	refused(err, "Topic "+topic.String()+" not found")
}
