package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What becomes of the samples that a Reader gets.
const (
	Handled  = "handled"
	Refused  = "refused"  // it cannot be decoded, or claims what cannot be
	Repeated = "repeated" // its number has been handled
	Missed   = "missed"   // by the numbers it was never got: its sender dropped it, or it came before this reader
)

// ReaderSettings are what code sets.
type ReaderSettings struct {
	Config Config
	// Group is whose members share the partitions.
	Group  string
	Logger *slog.Logger
	// Count is told what becomes of samples, from several goroutines; nil: nobody is.
	Count func(outcome string, n int)
	// Session is how long a member is missed before others get its partitions; 0 is
	// ten seconds, and brokers want at least six by default.
	Session time.Duration
}

const (
	defaultSession = 10 * time.Second
	// joinAgain is the pause after an attempt to join that failed.
	joinAgain = time.Second
	// leaveWithin is how long leaving a group may take: a broker that makes members wait
	// for each other keeps nobody from ending.
	leaveWithin = time.Second
	// watchPartitions is how often a member looks for more of them.
	watchPartitions = 5 * time.Second
)

// Reader is a member of a consumer group while it consumes.
type Reader struct {
	settings  ReaderSettings
	topics    *topics
	client    *kafkago.Client
	condition *condition
	refusals  *refusals
	sequence  *sequence
	lag       atomic.Int64
	handling  sync.Mutex
}

// NewReader prepares a member, which joins when it consumes.
func NewReader(s ReaderSettings) (*Reader, error) {
	if err := s.Config.Validate(); err != nil {
		return nil, err
	}
	if s.Group == "" {
		return nil, errors.New("a reader of load samples needs a group")
	}
	if s.Count == nil {
		s.Count = func(string, int) {}
	}
	if s.Session == 0 {
		s.Session = defaultSession
	}
	return &Reader{
		settings: s, sequence: newSequence(),
		condition: &condition{log: s.Logger, what: "load samples are not read", config: s.Config},
		refusals:  &refusals{log: s.Logger, topic: s.Config.topic()},
	}, nil
}

// Lag is how many samples lay before this reader in its partitions when it looked
// last.
func (r *Reader) Lag() int64 { return r.lag.Load() }

// Up reports whether Kafka did what this reader asked of it last; known is false before it
// has answered anything.
func (r *Reader) Up() (is, known bool) { return r.condition.up() }

// Consume hands samples on, one at a time, until ctx ends. It reads on where the
// group was, but nothing that is older than ten minutes, and begins at the end
// where it never was. It leaves the group before it returns; its error is of the
// configuration only.
func (r *Reader) Consume(ctx context.Context, handle func(*pb.LoadSample)) error {
	sec, err := r.settings.Config.security()
	if err != nil {
		return err
	}
	client, transport := r.settings.Config.client(sec, r.refuse)
	defer transport.CloseIdleConnections()
	defer r.lag.Store(0)
	r.client, r.topics = client, newTopics(client, r.settings.Config, r.settings.Logger)
	if r.awaitTopic(ctx) != nil {
		return nil
	}
	l := &leash{conns: map[*held]struct{}{}}
	group, err := kafkago.NewConsumerGroup(r.member(sec, l))
	if err != nil {
		return fmt.Errorf("joining group %s: %w", r.settings.Group, err)
	}
	r.follow(ctx, group, handle)
	late := time.AfterFunc(leaveWithin, l.end)
	defer late.Stop()
	_ = group.Close() // it returns nil
	return nil
}

func (r *Reader) awaitTopic(ctx context.Context) error {
	pauses := pause.Between(firstPause, lastPause)
	for {
		_, err := r.topics.find(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		r.condition.bad(err)
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

func (r *Reader) member(sec security, l *leash) kafkago.ConsumerGroupConfig {
	s := r.settings
	return kafkago.ConsumerGroupConfig{
		ID: s.Group, Brokers: s.Config.Brokers, Topics: []string{s.Config.topic()}, Dialer: s.Config.dialer(sec, l),
		GroupBalancers:    []kafkago.GroupBalancer{kafkago.RoundRobinGroupBalancer{}},
		HeartbeatInterval: s.Session / 10, SessionTimeout: s.Session, RebalanceTimeout: s.Session, JoinGroupBackoff: joinAgain,
		StartOffset: kafkago.LastOffset, WatchPartitionChanges: true, PartitionWatchInterval: watchPartitions,
	}
}

// follow consumes what each generation of the group gives this member.
func (r *Reader) follow(ctx context.Context, group *kafkago.ConsumerGroup, handle func(*pb.LoadSample)) {
	for ctx.Err() == nil {
		g, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, kafkago.RebalanceInProgress): // others come or go
		case err != nil:
			r.condition.bad(fmt.Errorf("joining group %s: %w", r.settings.Group, err))
		default:
			done := make(chan struct{})
			g.Start(func(ended context.Context) {
				defer close(done)
				r.consume(ctx, ended, g, handle)
			})
			<-done
		}
	}
}

// handle decodes a record, and hands it on unless that was done before.
func (r *Reader) handle(value []byte, handle func(*pb.LoadSample)) {
	s, err := r.decode(value)
	if err != nil {
		r.refuse(err)
		return
	}
	r.handling.Lock()
	defer r.handling.Unlock()
	missed, fresh := r.sequence.next(s)
	if !fresh {
		r.settings.Count(Repeated, 1)
		return
	}
	if missed > 0 {
		r.settings.Count(Missed, int(min(missed, maxMissed)))
	}
	handle(s)
	r.settings.Count(Handled, 1)
}

func (r *Reader) refuse(err error) {
	r.settings.Count(Refused, 1)
	r.refusals.add(err)
}

// maxMissed bounds what one lie adds to a counter.
const maxMissed = 1 << 20

func (r *Reader) decode(value []byte) (*pb.LoadSample, error) {
	if len(value) > MaxSample {
		return nil, fmt.Errorf("a sample of %d bytes, want at most %d", len(value), MaxSample)
	}
	s := &pb.LoadSample{}
	if err := proto.Unmarshal(value, s); err != nil {
		return nil, fmt.Errorf("decoding a sample: %w", err)
	}
	return s, nil
}
