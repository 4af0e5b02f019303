// The admin client of Apache's Go module asks the questions of tests/interop/tables.py about the Admin REST API, and
// prints "ok NAME", "absent NAME" or "failed NAME: reason".
package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

var tenant = os.Getenv("INTEROP_PREFIX")

func connect(token string) pulsaradmin.Client {
	client, err := pulsaradmin.NewClient(&pulsaradmin.Config{WebServiceURL: os.Getenv("INTEROP_HTTP_URL"), Token: token})
	must(err)
	return client
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func value[T any](found T, err error) T {
	must(err)
	return found
}

func check(found, wanted any, what string) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Errorf("%s: %+v, not %+v", what, found, wanted))
	}
}

func refused(err error, reason string) {
	if err == nil || !strings.Contains(err.Error(), reason) {
		panic(fmt.Errorf("not refused with %q: %v", reason, err))
	}
}

// A space is the namespace of one question.
type space struct {
	name string
}

func (s space) parsed() utils.NameSpaceName {
	return *value(utils.GetNamespaceName(s.name))
}

func (s space) topic(name string) utils.TopicName {
	return *value(utils.GetTopicName("persistent://" + s.name + "/" + name))
}

func ask(admin pulsaradmin.Client, name string, question func(pulsaradmin.Client, space)) {
	defer func() {
		if reason := recover(); reason != nil {
			fmt.Printf("failed %s: %s\n", name, strings.ReplaceAll(fmt.Sprint(reason), "\n", " "))
		}
	}()
	must(admin.Namespaces().CreateNamespace(tenant + "/" + name))
	question(admin, space{tenant + "/" + name})
	fmt.Println("ok", name)
}

func main() {
	admin := connect(os.Getenv("INTEROP_ROOT_TOKEN"))
	must(admin.Tenants().Create(utils.TenantData{Name: tenant, AllowedClusters: []string{"vela"}}))
	ask(admin, "tenants", tenants)
	ask(admin, "namespaces", namespaces)
	ask(admin, "namespace-policies", namespacePolicies)
	ask(admin, "topic-policies", topicPolicies)
	ask(admin, "permissions", permissions)
	ask(admin, "topics", topics)
	ask(admin, "statistics", statistics)
	ask(admin, "subscriptions", subscriptions)
	ask(admin, "messages", messages)
	ask(admin, "schemas", schemas)
	ask(admin, "lifecycle", lifecycle)
	ask(admin, "lookup", lookup)
	ask(admin, "brokers", brokers)
	ask(admin, "refusals", refusals)
	ask(admin, "token", token)
	for _, name := range []string{
		"namespace-policies-more", "topics-more", "subscriptions-more", "messages-more", "version",
	} {
		fmt.Println("absent", name)
	}
}
