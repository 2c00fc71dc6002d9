package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// askers send one request after the other, each.
	askers = 24
	// variants of requests; their answers are known.
	variants = 8
	// passes is how often the token log must have taken its bound in.
	passes = 3
	// troubleEvery is the pause between two kills.
	troubleEvery = 5 * time.Second
	// endsWithin is when a request counts as never ending.
	endsWithin = 2 * time.Minute
	// logBound is what the requests under way at a time need, and not much more.
	logBound = 4 << 20
	// keepLog is short, so that age makes room as well.
	keepLog = time.Minute
)

// TestFullLog keeps a pipeline busy whose token log is small, and kills parts
// of it all the time. Every request must end in its whole answer or in one
// typed error behind a part of that answer.
func TestFullLog(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SWITCHYARD_SOAK_LOG"))
	if err != nil {
		t.Skip("set SWITCHYARD_SOAK_LOG to a duration such as 90s or 20m to run it")
	}
	y := newFullPipeline(t)
	load, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var work sync.WaitGroup
	for i := range askers {
		work.Go(func() { y.ask(load, i) })
	}
	work.Go(func() { y.watch(load) })
	y.trouble(load)
	work.Wait()
	y.settle()
	t.Log(y.String())
	y.check()
}

// fullPipeline is the fleet under load, and what became of the requests.
type fullPipeline struct {
	*fleet.Fleet
	nc     *nats.Conn
	js     jetstream.JetStream
	client *client.Client
	want   [variants]answer
	began  time.Time

	taken atomic.Int64 // bytes of the records that were seen in the log

	mu       sync.Mutex
	outcomes map[string]int // "whole", or an error's code
	longest  time.Duration
	slowest  string // what became of the one that took longest
}

// answer is the tokens and the text of a stream.
type answer struct {
	ids  []uint32
	text string
}

func newFullPipeline(t *testing.T) *fullPipeline {
	t.Helper()
	flags := []string{"--log-bytes", fmt.Sprint(logBound), "--log-age", keepLog.String(), "--log-level", "warn"}
	y := &fullPipeline{
		Fleet:    fleet.New(t, fleet.Settings{Programs: fleet.Build(t), Flags: flags}),
		outcomes: map[string]int{}, began: time.Now(),
	}
	y.Scale(2, 2)
	var err error
	if y.nc, err = nats.Connect(y.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(y.nc.Close)
	if y.js, err = jetstream.New(y.nc); err != nil {
		t.Fatal(err)
	}
	y.client = client.New(y.nc, client.Settings{})
	y.readLog()
	for v := range y.want {
		if y.want[v], err = y.run(t.Context(), variant(v, "alone")); err != nil {
			t.Fatalf("variant %d alone: %v", v, err)
		}
	}
	return y
}

// variant is one of the requests; its answer depends on v alone.
func variant(v int, id string) *pb.Prompt {
	tokens, temperature, seed := int32(8+v*29), 0.8, uint32(v)
	p := &pb.Prompt{
		Text: strings.Repeat("Once upon a time there was a dog. ", 1+v), RequestId: fmt.Sprintf("%s-%d", id, v),
		MaxTokens: &tokens, Temperature: &temperature, Seed: &seed, IgnoreEos: true,
	}
	if v == 0 {
		p.Score = "logits" // large records
	}
	return p
}

// run streams a request to its end.
func (y *fullPipeline) run(ctx context.Context, p *pb.Prompt) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	s, err := y.client.Prompt(ctx, p)
	for err == nil {
		if err = a.read(s); !interrupted(err) {
			break
		}
		s, err = y.client.Resume(ctx, p.RequestId, int32(len(a.ids)))
	}
	if err == nil && len(a.ids) != int(*p.MaxTokens) {
		err = fmt.Errorf("a clean end after %d of %d tokens", len(a.ids), *p.MaxTokens)
	}
	return a, err
}

// interrupted says that the client lost the server, and the request may go on.
func interrupted(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Code == client.CodeInterrupted
}

// read takes a stream in up to its end.
func (a *answer) read(s *client.Stream) error {
	for c, err := range s.Chunks() {
		if err == nil {
			err = client.Failure(c)
		}
		if err != nil {
			return err
		}
		a.ids = append(a.ids, c.TokenIds...)
		a.text += c.Text
	}
	return nil
}

// ask sends requests until ctx ends; those under way then go on.
func (y *fullPipeline) ask(ctx context.Context, worker int) {
	choice := rand.New(rand.NewPCG(uint64(worker), 1))
	for n := 0; ctx.Err() == nil; n++ {
		v, began := choice.IntN(variants), time.Now()
		got, err := y.run(context.WithoutCancel(ctx), variant(v, fmt.Sprintf("soak-%d-%d", worker, n)))
		y.note(v, got, err, time.Since(began))
		var e *client.Error
		if errors.As(err, &e) && e.Code == client.CodeOverloaded {
			time.Sleep(min(max(e.RetryAfter, 50*time.Millisecond), time.Second))
		}
	}
}

// note judges what became of a request.
func (y *fullPipeline) note(v int, got answer, err error, took time.Duration) {
	outcome := "whole"
	var typed *client.Error
	switch {
	case err == nil:
	case errors.As(err, &typed) && typed.Code != client.CodeInterrupted && typed.Code != client.CodeCancelled:
		outcome = typed.Code // both of these are the client's own: nothing came in time
	default:
		y.T.Errorf("variant %d ended with %v after %d tokens in %v", v, err, len(got.ids), took.Round(time.Second))
		return
	}
	if n := len(got.ids); n > len(y.want[v].ids) || !slices.Equal(got.ids, y.want[v].ids[:n]) || !strings.HasPrefix(y.want[v].text, got.text) {
		y.T.Errorf("variant %d has other tokens than alone: %v, %v", v, got.ids, y.want[v].ids)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.outcomes[outcome]++
	if took > y.longest {
		y.longest, y.slowest = took, fmt.Sprintf("variant %d, %d tokens, error %v", v, len(got.ids), err)
	}
}

// trouble kills, suspends and restarts one process after the other until ctx ends.
func (y *fullPipeline) trouble(ctx context.Context) {
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(troubleEvery):
		}
		kinds := len(fleet.Kinds)
		switch kind := fleet.Kinds[n%kinds]; n / kinds % 3 {
		case 0:
			y.Kill(kind)
			y.Add(kind).Await(y.T, "ready")
		case 1:
			p := y.First(kind)
			p.Hang(y.T)
			time.Sleep(troubleEvery / 2)
			p.Wake(y.T)
		default:
			y.Servers[0].Kill()
			time.Sleep(time.Second)
			y.Servers[0].Start()
		}
		y.CheckAlive()
	}
}

// logName is the token log's stream.
var logName = schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}.Tokens().Name

// readLog adds up what the log takes in. It may miss records that go soon.
func (y *fullPipeline) readLog() {
	y.T.Helper()
	c, err := y.js.OrderedConsumer(y.T.Context(), logName, jetstream.OrderedConsumerConfig{})
	if err != nil {
		y.T.Fatal(err)
	}
	reading, err := c.Consume(func(m jetstream.Msg) { y.taken.Add(int64(len(m.Subject()) + len(m.Data()))) })
	if err != nil {
		y.T.Fatal(err)
	}
	y.T.Cleanup(reading.Stop)
}

// watch tells of the log, and wants it within its bound, until ctx ends. A server
// that was killed may count what it had removed and not noted yet a second time
// (3.3 % of the bound, once in 40 minutes): it must take nothing in meanwhile.
func (y *fullPipeline) watch(ctx context.Context) {
	tick, told := time.NewTicker(time.Second), time.Now()
	defer tick.Stop()
	for before := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		size, err := y.logSize(ctx)
		if err != nil {
			continue // the server is away
		}
		if size > logBound+logBound/20 || before > logBound && size > before {
			y.T.Errorf("the log has %d bytes, after %d; its bound is %d", size, before, logBound)
		}
		before = size
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			y.T.Logf("%s; %d KiB in the log", y, size>>10)
		}
	}
}

// logSize asks for the log's bytes. A server that is killed meanwhile answers never.
func (y *fullPipeline) logSize(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := y.js.Stream(ctx, logName)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Bytes, nil
}

// passed is how often the log has taken its bound in.
func (y *fullPipeline) passed() float64 { return float64(y.taken.Load()) / logBound }

// String tells how far the run is.
func (y *fullPipeline) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var ends []string
	for _, outcome := range slices.Sorted(maps.Keys(y.outcomes)) {
		ends = append(ends, fmt.Sprintf("%d %s", y.outcomes[outcome], outcome))
	}
	return fmt.Sprintf("%v: %s; the longest took %v (%s); the log has taken its bound in %.1f times",
		time.Since(y.began).Round(time.Second), strings.Join(ends, ", "), y.longest.Round(10*time.Millisecond), y.slowest, y.passed())
}

// settle waits until nothing is under way any more.
func (y *fullPipeline) settle() {
	y.T.Helper()
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}
	for _, stream := range []string{names.Prompts().Name, names.Sequences().Name} {
		left := uint64(1)
		for deadline := time.Now().Add(endsWithin); left > 0 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			if s, err := y.js.Stream(y.T.Context(), stream); err == nil {
				left = s.CachedInfo().State.Msgs
			}
		}
		if left > 0 {
			y.T.Errorf("%s still has %d messages when nothing runs any more", stream, left)
		}
	}
}

// check wants the log to have been full more than once, and requests to have been served.
func (y *fullPipeline) check() {
	y.T.Helper()
	total := 0
	for _, n := range y.outcomes {
		total += n
	}
	if y.passed() < passes {
		y.T.Errorf("the log has taken its bound in %.1f times only; %d are wanted: run longer", y.passed(), passes)
	}
	if whole := y.outcomes["whole"]; whole == 0 {
		y.T.Errorf("of %d requests none was answered", total)
	}
}
