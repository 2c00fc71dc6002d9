package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// keepFor is how long samples stay: what is older tells nothing about now.
const keepFor = 10 * time.Minute

// topicConfig is of a topic that is created here.
var topicConfig = []kafkago.ConfigEntry{
	{ConfigName: "retention.ms", ConfigValue: fmt.Sprint(keepFor.Milliseconds())},
	{ConfigName: "segment.ms", ConfigValue: fmt.Sprint(keepFor.Milliseconds())},
	// The broker's clock counts: those of senders differ.
	{ConfigName: "message.timestamp.type", ConfigValue: "LogAppendTime"},
	// Its batches always hold few enough bytes for readers; those of others may not.
	{ConfigName: "compression.type", ConfigValue: "snappy"},
	// Kafka's default, whatever that of these brokers is: readers take no answer that is
	// much larger.
	{ConfigName: "max.message.bytes", ConfigValue: "1048588"},
}

// layout is where a topic's partitions are: the leader of each.
type layout []kafkago.Broker

type topics struct {
	client *kafkago.Client
	config Config
	few    *condition // what is said of a topic with too few partitions
}

func newTopics(client *kafkago.Client, c Config, log *slog.Logger) *topics {
	few := &condition{log: log, what: "the topic's layers cannot spread over the readers", config: c}
	return &topics{client: client, config: c, few: few}
}

// find returns the topic's layout, and creates the topic if it does not exist.
func (t *topics) find(ctx context.Context) (layout, error) {
	l, err := t.look(ctx)
	if !errors.Is(err, kafkago.UnknownTopicOrPartition) {
		return l, err
	}
	if err := t.create(ctx); err != nil {
		return nil, err
	}
	return t.look(ctx)
}

// look is served from what the client knows, which is seconds old at most.
func (t *topics) look(ctx context.Context) (layout, error) {
	m, err := t.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{t.config.topic()}})
	if err != nil {
		return nil, fmt.Errorf("asking for the topic's partitions: %w", err)
	}
	for _, topic := range m.Topics {
		if topic.Name == t.config.topic() {
			return t.layout(topic)
		}
	}
	return nil, fmt.Errorf("asking for topic %s: %w", t.config.topic(), kafkago.UnknownTopicOrPartition)
}

func (t *topics) layout(topic kafkago.Topic) (layout, error) {
	if topic.Error != nil {
		return nil, fmt.Errorf("topic %s: %w", topic.Name, topic.Error)
	}
	l := make(layout, len(topic.Partitions))
	for _, p := range topic.Partitions {
		if p.ID < 0 || p.ID >= len(l) || p.Leader.Host == "" {
			return nil, fmt.Errorf("partition %d of topic %s: %w", p.ID, topic.Name, kafkago.LeaderNotAvailable)
		}
		l[p.ID] = p.Leader
	}
	if len(l) == 0 {
		return nil, fmt.Errorf("topic %s: %w", topic.Name, kafkago.UnknownTopicOrPartition)
	}
	if len(l) < LeastPartitions {
		t.few.bad(fmt.Errorf("topic %s has %d partitions, want at least %d: %w", topic.Name, len(l), LeastPartitions, errPartitions))
	} else {
		t.few.good()
	}
	return l, nil
}

// create makes the topic, unless somebody else has made it meanwhile.
func (t *topics) create(ctx context.Context) error {
	topic := kafkago.TopicConfig{
		Topic: t.config.topic(), NumPartitions: LeastPartitions, ReplicationFactor: -1, ConfigEntries: topicConfig, // the brokers' own
	}
	r, err := t.client.CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{topic}})
	if err == nil {
		err = r.Errors[topic.Topic]
	}
	if err == nil || errors.Is(err, kafkago.TopicAlreadyExists) {
		return nil
	}
	return fmt.Errorf("creating topic %s: %w", topic.Topic, err)
}
