package kafka

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// condition is whether Kafka does what is asked of it. It says so when that
// changes, and only then: what is tried again and again would fill the log.
type condition struct {
	log    *slog.Logger
	what   string // that is impaired meanwhile
	config Config

	mu    sync.Mutex
	since time.Time // when it began to be wrong; zero: it is not
	last  string    // the cure that was told last; empty: none since it was right
	known bool      // whether Kafka works was seen
}

// up reports whether Kafka did what was asked of it last; known is false before anything was.
func (c *condition) up() (is, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since.IsZero(), c.known
}

// bad says what is wrong and how to cure it, unless it was said last.
func (c *condition) bad(err error) {
	cure := c.cure(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = true
	if c.since.IsZero() {
		c.since = time.Now()
	}
	if c.last == cure || slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) }) && time.Since(c.since) < grace {
		return
	}
	c.last = cure
	c.log.Warn("Kafka: "+c.what+"; serving goes on", "error", err, "brokers", strings.Join(c.config.Brokers, ","), "topic", c.config.topic(), "cure", cure)
}

// good says that what was wrong is not any more.
func (c *condition) good() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.known = time.Time{}, true
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
	say string // with {topic}, and {partitions} that it should have
}{
	{kafkago.SASLAuthenticationFailed, "check --kafka-sasl, --kafka-user and --kafka-password-file"},
	{kafkago.UnsupportedSASLMechanism, "give --kafka-sasl a mechanism that the brokers have"},
	{kafkago.TopicAuthorizationFailed, "let this user read, write and describe topic {topic} (kafka-acls --add)"},
	{kafkago.GroupAuthorizationFailed, "let this user read its group (kafka-acls --add --group)"},
	{kafkago.ClusterAuthorizationFailed, "let this user create topics, or create it for him: kafka-topics --create --topic {topic} --partitions {partitions}"},
	{kafkago.PolicyViolation, "create the topic as the brokers' policy wants it: kafka-topics --create --topic {topic} --partitions {partitions}"},
	{kafkago.InvalidReplicationFactor, "create the topic with as many replicas as there are brokers: kafka-topics --create --topic {topic} --partitions {partitions}"},
	{kafkago.UnknownTopicOrPartition, "create the topic: kafka-topics --create --topic {topic} --partitions {partitions}"},
	{kafkago.MessageSizeTooLarge, "give topic {topic} max.message.bytes of at least 1048588, Kafka's default (kafka-configs --alter)"},
	{kafkago.InvalidTimestamp, "set this machine's clock, or give topic {topic} message.timestamp.type=LogAppendTime (kafka-configs --alter)"},
	{kafkago.NotEnoughReplicas, "start the brokers that are away, or lower min.insync.replicas of topic {topic}"},
	{errLarge, "report it: who makes samples is to make smaller ones"},
	{errPartitions, "kafka-topics --alter --topic {topic} --partitions {partitions}"},
	{io.ErrUnexpectedEOF, hungUp},
	{io.EOF, hungUp},
	{context.DeadlineExceeded, "look whether the brokers are overloaded or cannot be reached from here"},
}

// hungUp is what a broker does that stops, and one that is not spoken to as it wants.
const hungUp = "look whether the broker runs, and whether it wants TLS or a password: --kafka-tls, --kafka-sasl, --kafka-user and --kafka-password-file"

func (c *condition) cure(err error) string {
	for _, known := range cures {
		if errors.Is(err, known.of) {
			return strings.NewReplacer("{topic}", c.config.topic(), "{partitions}", strconv.Itoa(LeastPartitions)).Replace(known.say)
		}
	}
	return "start Kafka, or give --kafka the HOST:PORT of brokers that run"
}

// passing are errors of a topic that is new, and of brokers that hand over.
var passing = []error{
	kafkago.LeaderNotAvailable, kafkago.NotLeaderForPartition, kafkago.UnknownTopicOrPartition, kafkago.NotCoordinatorForGroup,
	kafkago.GroupCoordinatorNotAvailable, kafkago.GroupLoadInProgress, kafkago.RebalanceInProgress, kafkago.UnknownMemberId, kafkago.IllegalGeneration,
}

// grace is how long such an error may last before it is worth a word.
const grace = 5 * time.Second
