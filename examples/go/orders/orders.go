// Package orders takes orders: what it has said yes to is in the topic.
package orders

import (
	"context"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

const patience = 2 * time.Second

// Orders says yes when its writer does.
type Orders struct {
	writer *kafka.Writer
}

// AsItWas leaves RequiredAcks as it is, and that is RequireNone: an order is "written" before any broker has it.
func AsItWas(bootstrap, topic string) *Orders {
	return &Orders{writer: &kafka.Writer{
		Addr: kafka.TCP(strings.Split(bootstrap, ",")...), Topic: topic, BatchSize: 1,
	}}
}

// Mended waits for every in-sync replica; a topic with min.insync.replicas=2 has no fewer.
func Mended(bootstrap, topic string) *Orders {
	orders := AsItWas(bootstrap, topic)
	orders.writer.RequiredAcks = kafka.RequireAll
	return orders
}

// Take tells whether the order was taken.
func (orders *Orders) Take(order string) bool {
	soon, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return orders.writer.WriteMessages(soon, kafka.Message{Value: []byte(order)}) == nil
}
