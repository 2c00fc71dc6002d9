package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What becomes of samples, for counting.
const (
	Sent    = "sent"    // all brokers in sync have it
	Dropped = "dropped" // newer ones needed its place, it waited too long, or the writer ended
	Failed  = "failed"  // it is too large, or a broker refused it for good
)

// WriterOutcomes are what a Writer counts.
var WriterOutcomes = []string{Sent, Dropped, Failed}

// WriterSettings are what code sets.
type WriterSettings struct {
	Config Config
	Logger *slog.Logger
	// Count is told what becomes of samples, from several goroutines; nil: nobody is.
	Count func(outcome string, n int)
	// Waiting is the most samples that wait to be sent; 0 is a few thousand.
	Waiting int
	// Linger is how long samples wait for others to go with; 0 is ten milliseconds.
	Linger time.Duration
}

const (
	defaultWaiting = 4096
	// defaultLinger lets what is made within a few milliseconds go together: a request
	// costs hundreds of microseconds, whatever is in it.
	defaultLinger = 10 * time.Millisecond
	// staleAfter is how long a sample may wait: what is older tells of no load that
	// is still there.
	staleAfter = 5 * time.Second
	// batchBytes bounds a request, so that no partition's share is above what
	// Kafka takes by default, 1 MiB.
	batchBytes = 512 << 10
)

// Writer sends samples. Those who make them never wait for it: what Kafka does not
// take in time is dropped, oldest first, and counted.
type Writer struct {
	producer  *producer
	transport *kafkago.Transport
	condition *condition
	count     func(string, int)
	linger    time.Duration
	ctx       context.Context
	cancel    context.CancelFunc
	closing   chan struct{}
	done      chan struct{}
	note      chan struct{}

	mu      sync.Mutex
	closed  bool
	waiting *ring[waiting]
	numbers map[stream]uint64
}

// waiting is a sample that is to be sent.
type waiting struct {
	sample *pb.LoadSample
	since  time.Time
}

// stream is one replica's samples of one layer.
type stream struct {
	replica string
	source  pb.LoadSource
	layer   uint32
}

// NewWriter starts to send. Kafka need not be there yet.
func NewWriter(s WriterSettings) (*Writer, error) {
	if err := s.Config.Validate(); err != nil {
		return nil, err
	}
	sec, err := s.Config.security()
	if err != nil {
		return nil, err
	}
	w := &Writer{
		condition: &condition{log: s.Logger, what: "load samples are not sent", config: s.Config}, count: s.Count, linger: cmp.Or(s.Linger, defaultLinger),
		closing: make(chan struct{}), done: make(chan struct{}), note: make(chan struct{}, 1),
		waiting: newRing[waiting](cmp.Or(s.Waiting, defaultWaiting)), numbers: map[stream]uint64{},
	}
	if w.count == nil {
		w.count = func(string, int) {}
	}
	client, transport := s.Config.client(sec, nil)
	w.transport = transport
	w.producer = &producer{client: client, topics: newTopics(client, s.Config, s.Logger)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go w.run()
	return w, nil
}

// Up reports whether Kafka did what this writer asked of it last; known is false before
// it has answered anything.
func (w *Writer) Up() (is, known bool) { return w.condition.up() }

// Send numbers a sample and takes it over: the caller must not change it any more.
func (w *Writer) Send(s *pb.LoadSample) {
	w.mu.Lock()
	of := stream{s.Host, s.Source, s.Layer}
	w.numbers[of]++
	s.Number = w.numbers[of]
	dropped := w.closed || w.waiting.push(waiting{s, time.Now()})
	w.mu.Unlock()
	if dropped {
		w.count(Dropped, 1)
	}
	select {
	case w.note <- struct{}{}:
	default:
	}
}

// Close sends what waits, until ctx ends; what then is left is dropped.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	again := w.closed
	w.closed = true
	w.mu.Unlock()
	if !again {
		close(w.closing)
	}
	defer w.transport.CloseIdleConnections()
	defer w.cancel()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		w.cancel()
		<-w.done
		return fmt.Errorf("sending the last load samples to Kafka: %w", context.Cause(ctx))
	}
}

func (w *Writer) run() {
	defer close(w.done)
	for w.await() {
		_ = pause.For(w.ctx, w.linger) // it has ended: deliver finds that out
		for batch := w.take(); len(batch) > 0; batch = w.take() {
			w.deliver(batch)
		}
	}
}

// await returns when something may wait, or false when nothing more will.
func (w *Writer) await() bool {
	select {
	case <-w.note:
		return true
	default:
	}
	select {
	case <-w.note:
		return true
	case <-w.closing:
		return len(w.note) > 0
	}
}

// take encodes what waits, as much as goes into one request. What has waited too
// long is dropped: whoever reads it would take it for the load of now.
func (w *Writer) take() (batch []record) {
	for bytes := 0; bytes < batchBytes-MaxSample; {
		w.mu.Lock()
		one := w.waiting.take(nil, 1)
		w.mu.Unlock()
		if len(one) == 0 {
			break
		}
		if time.Since(one[0].since) > staleAfter {
			w.count(Dropped, 1)
			continue
		}
		r, err := encode(one[0].sample)
		if err != nil {
			w.count(Failed, 1)
			w.condition.bad(err)
			continue
		}
		bytes += len(r.value)
		batch = append(batch, r)
	}
	return batch
}

// errLarge is of a sample that no reader would decode.
var errLarge = errors.New("a sample is too large")

// encode refuses what no reader takes.
func encode(s *pb.LoadSample) (record, error) {
	value, err := proto.Marshal(s)
	if err == nil && len(value) > MaxSample {
		err = fmt.Errorf("%w: %d bytes of layer %d, want at most %d", errLarge, len(value), s.Layer, MaxSample)
	}
	return record{key: key(s), value: value, made: time.Now()}, err
}

// key keeps the samples of a model's layer in one partition, in order.
func key(s *pb.LoadSample) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, s.Model), s.Layer)
}

// Pauses between tries.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// deliver tries until all is sent or refused, or the writer ends.
func (w *Writer) deliver(batch []record) {
	pauses := pause.Between(firstPause, lastPause)
	for {
		v := w.producer.produce(w.ctx, batch)
		w.account(v)
		if batch = v.failed; len(batch) == 0 {
			return
		}
		if pauses.Wait(w.ctx) != nil {
			w.count(Dropped, len(batch))
			return
		}
	}
}

func (w *Writer) account(v verdict) {
	w.count(Sent, v.sent)
	w.count(Failed, len(v.refused))
	if v.err != nil {
		w.condition.bad(v.err)
	} else {
		w.condition.good()
	}
}
