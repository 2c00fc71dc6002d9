package replay

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Request is what one producer asks for. Its tokens follow from it alone.
type Request struct {
	At     time.Duration // since the run's beginning
	Domain int           // the kind of its text
	IDs    []uint32
	Tokens int // that are generated
	Seed   uint32
	// Temperature is that of sampling; 0 is one at which answers depend on every bit of the logits.
	Temperature float64
}

// temperature is the usual one.
const temperature = 0.8

// prompt is that of the request of a number, by which it has the same id in every run.
func (q *Request) prompt(number int) *pb.Prompt {
	n, temp, seed := int32(q.Tokens), cmp.Or(q.Temperature, temperature), q.Seed
	return &pb.Prompt{RequestId: fmt.Sprintf("replay-%06d", number), InputIds: q.IDs, MaxTokens: &n, IgnoreEos: true, Temperature: &temp, Seed: &seed}
}

// Answer is what came of a request.
type Answer struct {
	ID     string // of the request
	Tokens []uint32
	// Sent is when the request was sent, and Times when its chunks came, since the
	// run's beginning.
	Sent  time.Duration
	Times []time.Duration
	Err   error
}

// ask sends each request at its time and returns when all are answered.
func (s *Settings) ask(ctx context.Context, c *client.Client, began time.Time) ([]Answer, error) {
	answers := make([]Answer, len(s.Requests))
	var open sync.WaitGroup
	defer open.Wait()
	for i := range s.Requests {
		q := &s.Requests[i]
		if err := pause.For(ctx, time.Until(began.Add(q.At))); err != nil {
			return nil, context.Cause(ctx)
		}
		s.Progress("request %d of %d…", i+1, len(s.Requests))
		one := func() {
			answers[i] = answer(ctx, c, q.prompt(i), began)
			if a := &answers[i]; a.Err != nil && s.player != nil {
				s.player.ended(q.prompt(i).RequestId, a.Err)
			}
		}
		if s.InTurn {
			one()
		} else {
			open.Go(one)
		}
	}
	open.Wait()
	return answers, context.Cause(ctx)
}

func answer(ctx context.Context, c *client.Client, p *pb.Prompt, began time.Time) (a Answer) {
	a.Sent = time.Since(began)
	stream, err := c.Prompt(ctx, p)
	if err != nil {
		a.Err = err
		return a
	}
	a.ID = stream.RequestID()
	for chunk, err := range stream.Chunks() {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil {
			a.Err = err
			return a
		}
		if len(chunk.TokenIds) > 0 {
			a.Tokens = append(a.Tokens, chunk.TokenIds...)
			a.Times = append(a.Times, time.Since(began))
		}
	}
	return a
}
