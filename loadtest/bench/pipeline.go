package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// pipelineSide is the message pipeline under measurement, in this process.
type pipelineSide struct {
	name    string
	cluster *cluster.Cluster
	client  *client.Client
	stop    func() // closes the client
	vocab   int
	prompt  int // tokens of one
}

func (b *Bench) openPipeline(ctx context.Context, hops string) (*pipelineSide, error) {
	return b.openBy(ctx, b.settings.Open, hops)
}

func (b *Bench) openBy(ctx context.Context, open func(context.Context, string) (*cluster.Cluster, error), hops string) (*pipelineSide, error) {
	y, err := open(ctx, hops)
	if err != nil {
		return nil, err
	}
	s := &pipelineSide{name: y.Settings.Node.ModelName(), cluster: y, stop: func() {}, vocab: b.settings.Model.Spec.Vocab, prompt: b.settings.prompt()}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *pipelineSide) connect(ctx context.Context) (err error) {
	if err := s.cluster.Ready(ctx); err != nil {
		return err
	}
	client, stop, err := s.cluster.Client(ctx)
	if err == nil {
		s.client, s.stop = client, stop
	}
	return err
}

func (s *pipelineSide) read() (readings, error) {
	return read(s.cluster.Settings.Node.Shared.Telemetry.Registry)
}

func (s *pipelineSide) close() error {
	s.stop()
	return s.cluster.Close()
}

// decode generates tokens for a batch of requests.
func (s *pipelineSide) decode(ctx context.Context, batch, tokens int) (turn, error) {
	t, _, err := s.timed(ctx, batch, tokens)
	return t, err
}

// timed also tells the seconds to the first token of each request.
func (s *pipelineSide) timed(ctx context.Context, batch, tokens int) (t turn, firsts []float64, err error) {
	w, errs := &window{need: batch, began: time.Now()}, make([]error, batch)
	var all sync.WaitGroup
	for i := range batch {
		all.Go(func() { errs[i] = s.request(ctx, i, tokens, w) })
	}
	all.Wait()
	return turnOf(w, batch*tokens, since(w.began)), w.firsts, errors.Join(errs...)
}

func (s *pipelineSide) request(ctx context.Context, i, tokens int, w *window) error {
	stream, err := s.client.Prompt(ctx, greedyPrompt(promptIDs(i, s.prompt, s.vocab), tokens))
	if err != nil {
		w.ended()
		return err
	}
	defer w.ended()
	first := true
	for chunk, err := range stream.Chunks() {
		if err != nil {
			return err
		}
		if err := client.Failure(chunk); err != nil {
			return err
		}
		w.token(first)
		first = false
	}
	return nil
}

// greedyPrompt asks for what the direct path computes, whatever the model's generation_config.json says.
func greedyPrompt(ids []uint32, tokens int) *pb.Prompt {
	n, temperature, penalty := int32(tokens), 0.0, 1.0
	return &pb.Prompt{InputIds: ids, MaxTokens: &n, Temperature: &temperature, RepetitionPenalty: &penalty, IgnoreEos: true}
}

// window counts the tokens between the moment when every request has its
// first one and the moment when the first request is done.
type window struct {
	need    int
	started atomic.Int64
	tokens  atomic.Int64
	done    atomic.Bool
	began   time.Time

	mu       sync.Mutex
	firsts   []float64 // seconds to the first token of each request
	from, to time.Time
	counted  int64
}

func (w *window) token(first bool) {
	if first {
		w.mu.Lock()
		w.firsts = append(w.firsts, since(w.began))
		w.mu.Unlock()
	}
	if first && int(w.started.Add(1)) == w.need {
		w.mu.Lock()
		w.from = time.Now()
		w.mu.Unlock()
		w.tokens.Store(0)
		return
	}
	w.tokens.Add(1)
}

func (w *window) ended() {
	if w.done.Swap(true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to, w.counted = time.Now(), w.tokens.Load()
}

// turnOf is the turn of so many tokens that took so many seconds.
func turnOf(w *window, tokens int, seconds float64) turn {
	t := turn{rate: w.rate(), whole: float64(tokens) / seconds}
	if t.rate > 0 {
		t.together = float64(w.counted) / float64(tokens)
	}
	if t.together < leastTogether {
		t.rate = t.whole
	}
	return t
}

// leastTogether is the share of a turn's tokens below which those that came while all
// sequences decoded say nothing of how fast they do.
const leastTogether = 0.25

// rate is tokens a second; 0 when some request ended before all had begun.
func (w *window) rate() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.from.IsZero() || !w.to.After(w.from) {
		return 0
	}
	return float64(w.counted) / w.to.Sub(w.from).Seconds()
}
