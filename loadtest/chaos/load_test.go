package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	requests = 20
	// tokens of each answer; what the model's context of 512 leaves is more.
	tokens = 128
	// hang is when an answer counts as never coming.
	hang = 4 * time.Minute
)

var texts = []string{
	"Once upon a time", "The little dog", "Lily and Tom", "One day, a big bear", "There was a red ball",
}

// prompt is the i-th of the requests: sampled, and seeded so that its answer is one.
func prompt(scenario string, i int) *pb.Prompt {
	p := &pb.Prompt{
		Text: texts[i%len(texts)], RequestId: fmt.Sprintf("%s-%d", scenario, i), MaxTokens: proto.Int32(tokens),
		Temperature: proto.Float64(0.7 + 0.05*float64(i%8)), TopP: proto.Float64(0.95),
		Seed: proto.Uint32(uint32(1000 + i)), IgnoreEos: true,
	}
	if strings.HasPrefix(scenario, browned) && spared(i) {
		p.Brownout = "never"
	}
	return p
}

// answer is what a stream brought.
type answer struct {
	ids  []uint32
	text string
	// first is how long its first chunk took, stall the longest pause after it.
	first, stall time.Duration
}

// load sends requests through pkg/request/client and watches them from beside.
type load struct {
	t      *testing.T
	client *client.Client
	raw    *raw
}

func newLoad(t *testing.T, url string) *load {
	prefix := "_INBOX.chaos"
	c := connect(t, url, nats.CustomInboxPrefix(prefix))
	return &load{t: t, client: client.New(c, client.Settings{Patience: hang}), raw: listen(t, connect(t, url), prefix)}
}

func connect(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(options, nats.Timeout(testkit.Patience), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// run streams the i-th request; on every chunk it calls progress.
func (l *load) run(scenario string, i int, progress func(tokens int)) (answer, error) {
	return l.stream(prompt(scenario, i), progress)
}

func (l *load) stream(p *pb.Prompt, progress func(tokens int)) (answer, error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), hang)
	defer cancel()
	stream, err := l.client.Prompt(ctx, p)
	if err != nil {
		return answer{}, err
	}
	return collect(stream, progress)
}

// again streams the i-th request of a scenario once more, from its log.
func (l *load) again(scenario string, i int) (answer, error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), hang)
	defer cancel()
	stream, err := l.client.Resume(ctx, prompt(scenario, i).RequestId, 0)
	if err != nil {
		return answer{}, err
	}
	return collect(stream, func(int) {})
}

// collect reads a stream and wants its chunks without a gap and without a duplicate.
func collect(stream *client.Stream, progress func(tokens int)) (a answer, err error) {
	last := time.Now()
	for c, err := range stream.Chunks() {
		if err == nil {
			err = client.Failure(c)
		}
		if err != nil {
			return a, fmt.Errorf("after %d tokens: %w", len(a.ids), err)
		}
		if int(c.Index) != len(a.ids) {
			return a, fmt.Errorf("chunk %d came after %d tokens", c.Index, len(a.ids))
		}
		a.ids = append(a.ids, c.TokenIds...)
		a.text += c.Text
		now := time.Now()
		if pause := now.Sub(last); a.first == 0 {
			a.first = pause
		} else {
			a.stall = max(a.stall, pause)
		}
		last = now
		progress(len(a.ids))
	}
	if len(a.ids) != tokens {
		return a, fmt.Errorf("the answer has %d tokens, not %d", len(a.ids), tokens)
	}
	return a, nil
}

// alone sends the requests one after the other.
func (l *load) alone(scenario string) []answer {
	out := make([]answer, requests)
	for i := range out {
		var err error
		if out[i], err = l.run(scenario, i, func(int) {}); err != nil {
			l.t.Fatalf("%s, request %d: %v", scenario, i, err)
		}
	}
	return out
}

// When trouble begins: when half of the requests have so many tokens, so that
// at least half of the streams are open; or while the prompts come in.
const (
	enough = tokens / 8
	half   = requests / 2
)

// batch sends the requests at once, and calls trouble in the middle of half of
// them, or early. It says how many were open then.
func (l *load) batch(scenario string, early bool, trouble func()) (out []answer, open int) {
	var streaming, ended atomic.Int32
	var running sync.WaitGroup
	middle := make(chan struct{})
	if early {
		close(middle)
	}
	out = make([]answer, requests)
	for i := range out {
		running.Go(func() {
			defer ended.Add(1)
			var err error
			out[i], err = l.run(scenario, i, func(n int) {
				if n == enough && streaming.Add(1) == half && !early {
					close(middle)
				}
			})
			if err != nil {
				l.t.Errorf("%s, request %d: %v", scenario, i, err)
			}
		})
	}
	select {
	case <-middle:
		open = requests - int(ended.Load())
		trouble()
	case <-time.After(hang):
	}
	running.Wait()
	return out, open
}

// raw is a subscriber that takes every chunk as it comes, repeats too.
type raw struct {
	nc *nats.Conn

	mu      sync.Mutex
	chunks  map[string]map[int32]string // request, index → body
	repeats int
	differ  []string
}

func listen(t *testing.T, nc *nats.Conn, prefix string) *raw {
	r := &raw{nc: nc, chunks: map[string]map[int32]string{}}
	sub, err := nc.Subscribe(prefix+".>", r.take)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *raw) take(m *nats.Msg) {
	c := &pb.Chunk{}
	if m.Header.Get(schemas.HeaderContentType) != schemas.ContentProtobuf || proto.Unmarshal(m.Data, c) != nil {
		return // an acknowledgement
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.chunks[c.RequestId]
	if of == nil {
		of = map[int32]string{}
		r.chunks[c.RequestId] = of
	}
	before, again := of[c.Index]
	if again {
		r.repeats++
	}
	if again && before != string(m.Data) {
		r.differ = append(r.differ, fmt.Sprintf("%s %d", c.RequestId, c.Index))
	}
	of[c.Index] = string(m.Data)
}

// arrival is how much later than at the reader a chunk may be here, where it may be lost.
const arrival = 2 * time.Second

// check wants every index of a scenario's requests, and repeats with equal
// bytes only. Core NATS keeps nothing while its server is gone, so that
// indices may then be missing here.
func (r *raw) check(t *testing.T, scenario string, serverGone bool) {
	t.Helper()
	missing, within := r.missing(scenario), hang
	if serverGone {
		within = arrival
	}
	for deadline := time.Now().Add(within); len(missing) > 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		missing = r.missing(scenario)
	}
	if len(missing) > 0 && !serverGone {
		t.Errorf("%s: the raw subscriber missed %s", scenario, strings.Join(missing, ", "))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.differ) > 0 {
		t.Errorf("%s: the same index came with other bytes: %s", scenario, strings.Join(r.differ, ", "))
		r.differ = nil
	}
}

// missing names the chunks of a scenario that have not come.
func (r *raw) missing(scenario string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range requests {
		request := fmt.Sprintf("%s-%d", scenario, i)
		for index := range int32(tokens) {
			if _, ok := r.chunks[request][index]; !ok {
				out = append(out, fmt.Sprintf("%s %d", request, index))
			}
		}
	}
	return out
}

func (r *raw) repeated() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.repeats
}
