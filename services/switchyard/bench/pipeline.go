package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// pipelineSide is the message pipeline under measurement, in this process.
type pipelineSide struct {
	name    string
	cluster *cluster
	conn    *bus.Conn
	client  *client.Client
	vocab   int
}

func (c *BenchCmd) openPipeline(ctx context.Context, e *env, m *model.Model, hops string) (*pipelineSide, error) {
	up := UpCmd{}
	if err := fillDefaults(&up); err != nil {
		return nil, err
	}
	up.Wire, up.Hops, up.Grouping, up.Microbatches, up.MinRows = c.Wire, hops, c.Grouping, c.Microbatches, c.MinRows
	up.Threads, up.MaxModelLen, up.KVMemory = c.Threads, min(benchContext, m.Spec.MaxPositions), fmt.Sprint(benchKV)
	made, err := up.makers(e.Prefix)
	if err != nil {
		return nil, err
	}
	t, err := telemetry.Setup(ctx, up.TelemetryFlags.config("switchyard-bench", up.ModelFlags))
	if err != nil {
		return nil, err
	}
	n := &node{model: m, pool: pool.New(up.threads()), telemetry: t, log: e.log, flags: up.ModelFlags, prefix: e.Prefix}
	n.keepModel = true
	y, err := openCluster(ctx, clusterSettings{node: n, makers: made, count: one()})
	if err != nil {
		return nil, err
	}
	s := &pipelineSide{name: n.modelName(), cluster: y, vocab: m.Spec.Vocab}
	if err := s.connect(ctx, e); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *pipelineSide) connect(ctx context.Context, e *env) (err error) {
	if err := s.cluster.ready(ctx); err != nil {
		return err
	}
	if s.conn, err = s.cluster.connect(ctx); err != nil {
		return err
	}
	s.client = client.New(s.conn.NATS(), client.Settings{Prefix: e.Prefix, Model: s.name})
	return nil
}

func (s *pipelineSide) close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return s.cluster.close()
}

// decode generates tokens for a batch of requests and returns tokens a second
// over the time in which all of them decode.
func (s *pipelineSide) decode(ctx context.Context, batch, tokens int) (float64, error) {
	w := &window{need: batch}
	errs := make([]error, batch)
	var all sync.WaitGroup
	for i := range batch {
		all.Go(func() { errs[i] = s.request(ctx, i, tokens, w) })
	}
	all.Wait()
	return w.rate(), errors.Join(errs...)
}

func (s *pipelineSide) request(ctx context.Context, i, tokens int, w *window) error {
	n := int32(tokens)
	stream, err := s.client.Prompt(ctx, &pb.Prompt{InputIds: benchIDs(i, benchPrompt, s.vocab), MaxTokens: &n, IgnoreEos: true})
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

// window counts the tokens between the moment when every request has its
// first one and the moment when the first request is done.
type window struct {
	need    int
	started atomic.Int64
	tokens  atomic.Int64
	done    atomic.Bool

	mu       sync.Mutex
	from, to time.Time
	counted  int64
}

func (w *window) token(first bool) {
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

// rate is tokens a second; 0 when some request ended before all had begun.
func (w *window) rate() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.from.IsZero() || !w.to.After(w.from) {
		return 0
	}
	return float64(w.counted) / w.to.Sub(w.from).Seconds()
}
