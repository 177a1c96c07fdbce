package orders

import (
	"os"
	"slices"
	"testing"

	"minikafka.example/minikafkalab"
)

func TestAnOrderThatWasTakenOutlivesItsLeader(t *testing.T) {
	lab := minikafkalab.Start(t)
	var topic string
	var leader int
	var records []struct{ Value string }
	lab.Verb(t, "create_topic", minikafkalab.Fields{"config": map[string]string{"min.insync.replicas": "2"}}, &topic)

	service := Mended
	if os.Getenv("EXAMPLE") == "as-it-was" {
		service = AsItWas
	}
	orders := service(lab.Bootstrap, topic)
	var taken []string
	take := func(order string) {
		if orders.Take(order) {
			taken = append(taken, order)
		}
	}

	take("a")
	lab.Verb(t, "leader", minikafkalab.Fields{"topic": topic}, &leader)
	lab.Verb(t, "cut", minikafkalab.Fields{"broker": leader}, nil)
	take("b")
	lab.Verb(t, "kill", minikafkalab.Fields{"broker": leader}, nil)
	lab.Verb(t, "leader", minikafkalab.Fields{"topic": topic, "other_than": leader}, nil)
	lab.Verb(t, "heal", minikafkalab.Fields{}, nil)

	lab.Verb(t, "records", minikafkalab.Fields{"topic": topic}, &records)
	for _, order := range taken {
		if !slices.ContainsFunc(records, func(record struct{ Value string }) bool { return record.Value == order }) {
			t.Errorf("order %q was taken, and is not in the topic", order)
		}
	}
	if !slices.Contains(taken, "a") {
		t.Errorf("order %q was not taken, though nothing was broken", "a")
	}
}
