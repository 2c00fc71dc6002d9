package kafka_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TestConformance wants the same of the embedded broker and of Apache Kafka.
func TestConformance(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.Name, func(t *testing.T) {
			tests := []struct {
				name string
				run  func(*testing.T, *scene)
			}{
				{"order", testOrder}, {"takes over", testTakesOver}, {"few partitions", testFewPartitions}, {"topic deleted", testDeleted},
				{"wrong password", testWrongPassword}, {"right password", testRightPassword}, {"garbage", testGarbage}, {"bombs", testBombs}, {"restart", testRestart},
			}
			topic := func(name string) string { return strings.ReplaceAll(name, " ", "-") }
			var topics []string
			for _, tt := range tests {
				topics = append(topics, topic(tt.name))
			}
			b := kind.Start(t, topics...)
			for _, tt := range tests {
				t.Run(tt.name, func(t *testing.T) {
					c := b.Config()
					c.Topic = topic(tt.name)
					tt.run(t, &scene{broker: b, config: c})
				})
			}
		})
	}
}

// scene is a broker with a topic for one test.
type scene struct {
	broker
	config kafka.Config
}

// client may make and delete topics.
func (s *scene) client(t *testing.T) *kafkago.Client {
	c := s.Operator()
	t.Cleanup(c.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(s.config.Brokers...), Transport: c, Timeout: testkit.Patience}
}

// transport is one that closes its connections at the test's end.
func transport(t *testing.T) *kafkago.Transport {
	c := &kafkago.Transport{}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// of are the numbers of a replica's samples that readers have handled, by layer, in
// the order in which they came to each.
func of(replica string, readers ...*reader) map[uint32][]uint64 {
	got := map[uint32][]uint64{}
	for _, r := range readers {
		for _, s := range r.samples() {
			if s.Host == replica {
				got[s.Layer] = append(got[s.Layer], s.Number)
			}
		}
	}
	return got
}

func total(got map[uint32][]uint64) (n int) {
	for _, numbers := range got {
		n += len(numbers)
	}
	return n
}

// All samples come once, and those of a layer in order.
func testOrder(t *testing.T, s *scene) {
	w := write(t, kafka.WriterSettings{Config: s.config})
	r := read(t, kafka.ReaderSettings{Config: s.config})
	flows(t, w, r)
	const n, layers = 2000, 16
	for i := range n {
		w.Send(sample("gate-1", uint32(i%layers)))
	}
	testkit.Eventually(t, "all samples", func() bool { return total(of("gate-1", r)) == n })
	for layer, numbers := range of("gate-1", r) {
		for i, number := range numbers {
			if number != uint64(i+1) {
				t.Fatalf("layer %d: number %d at place %d", layer, number, i)
			}
		}
	}
	testkit.Eventually(t, "no lag", func() bool { return r.Lag() == 0 })
	if w.of(kafka.Dropped)+w.of(kafka.Failed)+r.of(kafka.Refused)+r.of(kafka.Repeated) > 0 {
		t.Errorf("the writer counts %v, the reader %v", w.all(), r.all())
	}
}

// A second reader gets a share, and the rest when the first one leaves: nothing is
// lost, and nothing handled twice.
func testTakesOver(t *testing.T, s *scene) {
	w := write(t, kafka.WriterSettings{Config: s.config})
	settings := kafka.ReaderSettings{Config: s.config, Group: t.Name(), Session: 6 * time.Second}
	first := read(t, settings)
	flows(t, w, first)
	before := w.of(kafka.Dropped) // some may be, where this machine stands still
	sent := steadily(w, "gate-1", 32)
	testkit.Eventually(t, "the first reader gets samples", func() bool { return total(of("gate-1", first)) > 100 })
	second := read(t, settings)
	testkit.Eventually(t, "the second reader gets samples", func() bool { return total(of("gate-1", second)) > 100 })
	first.stop()
	after := total(of("gate-1", second))
	testkit.Eventually(t, "the second reader gets all layers", func() bool {
		return len(of("gate-1", second)) == 32 && total(of("gate-1", second)) > after+500
	})
	n := sent()
	testkit.Eventually(t, "all samples that were not dropped", func() bool {
		return total(of("gate-1", first, second))+w.of(kafka.Dropped)-before >= n
	})
	seen := map[uint32]map[uint64]bool{}
	for layer, numbers := range of("gate-1", first, second) {
		seen[layer] = map[uint64]bool{}
		for _, number := range numbers {
			if seen[layer][number] {
				t.Errorf("layer %d: number %d was handled twice", layer, number)
			}
			seen[layer][number] = true
		}
	}
}

// steadily sends a sample a millisecond until stop is called, which says how many.
func steadily(w writer, replica string, layers int) (stop func() int) {
	quit, n, done := make(chan struct{}), 0, sync.WaitGroup{}
	done.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				w.Send(sample(replica, uint32(n%layers)))
				n++
			}
		}
	})
	return func() int {
		close(quit)
		done.Wait()
		return n
	}
}

// A topic with too few partitions works; what to do is said once.
func testFewPartitions(t *testing.T, s *scene) {
	client := s.client(t)
	made, err := client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{Topic: s.config.Topic, NumPartitions: 3, ReplicationFactor: 1}},
	})
	if err != nil || made.Errors[s.config.Topic] != nil {
		t.Fatal(err, made)
	}
	log := &logged{}
	w := write(t, kafka.WriterSettings{Config: s.config, Logger: log.logger()})
	r := read(t, kafka.ReaderSettings{Config: s.config})
	flows(t, w, r)
	flows(t, w, r)
	if n := log.count("kafka-topics --alter --topic few-partitions --partitions 32"); n != 1 {
		t.Errorf("said %d times what to do:\n%s", n, log)
	}
}

// A topic that somebody deletes is made again.
func testDeleted(t *testing.T, s *scene) {
	w := write(t, kafka.WriterSettings{Config: s.config})
	r := read(t, kafka.ReaderSettings{Config: s.config, Session: 6 * time.Second})
	flows(t, w, r)
	client := s.client(t)
	gone, err := client.DeleteTopics(t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{s.config.Topic}})
	if err != nil || gone.Errors[s.config.Topic] != nil {
		t.Fatal(err, gone)
	}
	before := r.of(kafka.Handled)
	for end := time.Now().Add(testkit.Patience); r.of(kafka.Handled) == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no samples after the topic was deleted")
		}
		w.Send(sample("gate-2", 1))
	}
}

// With a wrong password samples are dropped, oldest first, and counted; what to do
// is said once by writer and reader. Nobody waits.
func testWrongPassword(t *testing.T, s *scene) {
	c := s.Guarded(t, "wrong")
	c.Topic = s.config.Topic
	log := &logged{}
	w := write(t, kafka.WriterSettings{Config: c, Logger: log.logger(), Waiting: 10})
	r := read(t, kafka.ReaderSettings{Config: c, Logger: log.logger()})
	for range 1000 {
		w.Send(sample("gate-1", 1))
	}
	const cure = "--kafka-sasl, --kafka-user and --kafka-password-file"
	testkit.Eventually(t, "both say what to do", func() bool { return log.count(cure) == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); err == nil || w.of(kafka.Dropped) != 1000 || w.of(kafka.Sent) != 0 {
		t.Errorf("closing: %v, %v", err, w.all())
	}
	r.stop()
	if n := log.count(cure); n != 2 {
		t.Errorf("said %d times:\n%s", n, log)
	}
}

func testRightPassword(t *testing.T, s *scene) {
	c := s.Guarded(t, password)
	c.Topic = s.config.Topic
	flows(t, write(t, kafka.WriterSettings{Config: c}), read(t, kafka.ReaderSettings{Config: c}))
}

// What is too large is not sent, and what is too large or no sample is not handled.
func testGarbage(t *testing.T, s *scene) {
	w := write(t, kafka.WriterSettings{Config: s.config})
	log := &logged{}
	r := read(t, kafka.ReaderSettings{Config: s.config, Logger: log.logger()})
	flows(t, w, r)
	large := sample("gate-1", 1)
	large.Steps = []*pb.StepLoad{{Owner: strings.Repeat("a", kafka.MaxSample)}}
	w.Send(large)
	testkit.Eventually(t, "the large sample has failed", func() bool { return w.of(kafka.Failed) == 1 })
	out := &kafkago.Writer{Addr: kafkago.TCP(s.config.Brokers...), Topic: s.config.Topic, RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond, Transport: transport(t)}
	defer func() { _ = out.Close() }() // it has written all
	for _, value := range [][]byte{bytes.Repeat([]byte{0}, kafka.MaxSample+1), []byte("{}"), {0xff}} {
		if err := out.WriteMessages(t.Context(), kafkago.Message{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "three are refused", func() bool { return r.of(kafka.Refused) == 3 })
	flows(t, w, r)
	if n := log.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, log)
	}
}

// A broker that is killed and comes back: what was not counted as dropped is
// handled, and nothing twice.
func testRestart(t *testing.T, s *scene) {
	log := &logged{}
	w := write(t, kafka.WriterSettings{Config: s.config, Logger: log.logger(), Waiting: 500})
	r := read(t, kafka.ReaderSettings{Config: s.config, Session: 6 * time.Second})
	flows(t, w, r)
	before := w.of(kafka.Dropped)
	sent := steadily(w, "gate-1", 32)
	testkit.Eventually(t, "samples before", func() bool { return total(of("gate-1", r)) > 100 })
	s.Kill(t)
	testkit.Eventually(t, "samples are dropped", func() bool { return w.of(kafka.Dropped) > before+100 })
	s.Start(t)
	for end := time.Now().Add(testkit.Patience); r.of(kafka.Missed) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no samples after the restart: %v, %v\n%s", w.all(), r.all(), log)
		}
	}
	n := sent()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all that were not dropped", func() bool { return total(of("gate-1", r))+w.of(kafka.Dropped)-before == n })
	for layer, numbers := range of("gate-1", r) {
		for i := 1; i < len(numbers); i++ {
			if numbers[i] <= numbers[i-1] {
				t.Errorf("layer %d: %d after %d", layer, numbers[i], numbers[i-1])
			}
		}
	}
	t.Logf("of %d samples %d were handled; the writer counts %v, the reader %v", n, total(of("gate-1", r)), w.all(), r.all())
	if warned := log.count("level=WARN"); warned == 0 || warned > 3 { // it hangs up, and nobody is there
		t.Errorf("%d warnings:\n%s", warned, log)
	}
}

// logged keeps what is logged.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) count(text string) int { return strings.Count(l.String(), text) }

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
