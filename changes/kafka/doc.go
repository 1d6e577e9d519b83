// Package kafka reads changes from a Kafka topic, and writes a database's into
// one. What a message looks like is in docs/kafka.md; why the position of the
// writer is in the topic itself and that of a reader only in its table is in
// docs/adr/0040-kafka.md.
//
// A Source owns all partitions of its topic. It is no member of a consumer
// group: who may write the table is the table's lease. The offsets that it
// commits to a group, when it is given one, are for tools that show the lag.
package kafka
