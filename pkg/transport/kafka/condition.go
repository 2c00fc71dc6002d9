package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
)

// condition is whether Kafka does what is asked of it. It says so when that
// changes, and only then: what is tried again and again would fill the log.
type condition struct {
	log    *slog.Logger
	what   string // that is impaired meanwhile
	config Config

	mu   sync.Mutex
	last string // what was wrong; empty: nothing
}

// bad says what is wrong and how to cure it, unless it was said last.
func (c *condition) bad(err error) {
	cure := c.cure(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == cure {
		return
	}
	c.last = cure
	c.log.Warn("Kafka: "+c.what+"; serving goes on", "error", err, "brokers", strings.Join(c.config.Brokers, ","), "topic", c.config.topic(), "cure", cure)
}

// good says that what was wrong is not any more.
func (c *condition) good() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != "" {
		c.last = ""
		c.log.Info("Kafka: works again", "brokers", strings.Join(c.config.Brokers, ","), "topic", c.config.topic())
	}
}

// errPartitions is of a topic that cannot be shared as it should.
var errPartitions = errors.New("too few partitions")

// cures are what to do about errors of Kafka, the most specific first.
var cures = []struct {
	of  error
	say string // with the topic and the partitions it should have
}{
	{kafkago.SASLAuthenticationFailed, "check --kafka-sasl, --kafka-user and --kafka-password-file"},
	{kafkago.UnsupportedSASLMechanism, "give --kafka-sasl a mechanism that the brokers have"},
	{kafkago.TopicAuthorizationFailed, "let this user read, write and describe topic %[1]s (kafka-acls --add)"},
	{kafkago.GroupAuthorizationFailed, "let this user read its group (kafka-acls --add --group)"},
	{kafkago.ClusterAuthorizationFailed, "let this user create topics, or create it for him: kafka-topics --create --topic %[1]s --partitions %[2]d"},
	{kafkago.PolicyViolation, "create the topic as the brokers' policy wants it: kafka-topics --create --topic %[1]s --partitions %[2]d"},
	{kafkago.InvalidReplicationFactor, "create the topic with as many replicas as there are brokers: kafka-topics --create --topic %[1]s --partitions %[2]d"},
	{kafkago.UnknownTopicOrPartition, "create the topic: kafka-topics --create --topic %[1]s --partitions %[2]d"},
	{kafkago.MessageSizeTooLarge, "give topic %[1]s max.message.bytes of at least 1048588, Kafka's default (kafka-configs --alter)"},
	{kafkago.NotEnoughReplicas, "start the brokers that are away, or lower min.insync.replicas of topic %[1]s"},
	{errPartitions, "kafka-topics --alter --topic %[1]s --partitions %[2]d"},
	{context.DeadlineExceeded, "look whether the brokers are overloaded or cannot be reached from here"},
}

func (c *condition) cure(err error) string {
	for _, known := range cures {
		if errors.Is(err, known.of) {
			return fmt.Sprintf(known.say+"%.0[1]s%.0[2]d", c.config.topic(), c.config.partitions())
		}
	}
	return "start Kafka, or give --kafka the HOST:PORT of brokers that run"
}
