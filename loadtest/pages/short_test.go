package pages

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	clients = 32
	answers = 480
	// to is the demo model's token of " to", which ends an answer: about one in forty.
	to = 291
)

// TestShortAnswers asks for short answers with a large max_tokens, many at once, and
// measures tokens a second, and how many sequences a step takes further.
func TestShortAnswers(t *testing.T) {
	s := start(t)
	var next, tokens atomic.Int64
	var asking sync.WaitGroup
	began := time.Now()
	for range clients {
		asking.Go(func() {
			for n := next.Add(1); n <= answers; n = next.Add(1) {
				tokens.Add(s.answer(int(n)))
			}
		})
	}
	asking.Wait()
	took, steps := time.Since(began).Seconds(), s.attention(`step_duration_seconds_count{model="demo"}`)
	t.Logf("%d answers of %.0f tokens: %.0f tokens/s, %.1f tokens a step, %.0f stepped aside",
		answers, float64(tokens.Load())/answers, float64(tokens.Load())/took, float64(tokens.Load())/steps,
		s.attention(`preemptions_total{model="demo"}`))
}

// answer is how many tokens a request's answer has.
func (s *services) answer(n int) (tokens int64) {
	ctx, stop := context.WithTimeout(s.Context(), 10*settled)
	defer stop()
	p := prompt(name("short", n), n)
	p.StopTokenIds = []uint32{to}
	stream, err := s.client.Prompt(ctx, p)
	if err != nil {
		s.Error(err)
		return 0
	}
	var last *pb.Chunk
	for c, err := range stream.Chunks() {
		if err != nil {
			s.Error(err)
			return tokens
		}
		tokens, last = tokens+int64(len(c.TokenIds)), c
	}
	if last.GetError() != nil {
		s.Errorf("request %d: %v", n, last.Error)
	}
	return tokens
}
