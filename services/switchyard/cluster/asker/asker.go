// Package asker asks pipelines with token ids, for what compares answers.
package asker

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Asker asks a pipeline with token ids.
type Asker struct {
	Client *client.Client
	Vocab  int
}

// Scores returns what there is of a prompt's positions in their order: what an
// encoder makes of those that it reads before a decoder, and the logits of the
// others.
func (q *Asker) Scores(ctx context.Context, p *pb.Prompt, positions int) (hidden, logits []float32, err error) {
	none := int32(0)
	p.Score, p.MaxTokens = "logits", &none
	chunks, err := q.Ask(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	seen := 0
	for _, c := range chunks {
		switch s := c.Score; {
		case s == nil:
		case int(s.Position) != seen || len(s.Logits) != q.Vocab && len(s.Hidden) == 0:
			return nil, nil, fmt.Errorf("the pipeline sent %d logits for position %d", len(s.Logits), s.Position)
		default:
			hidden, logits = append(hidden, s.Hidden...), append(logits, s.Logits...)
			seen++
		}
	}
	if seen != positions {
		return nil, nil, fmt.Errorf("the pipeline scored %d of %d positions", seen, positions)
	}
	return hidden, logits, nil
}

// Ask returns the chunks of an answer; an end of sequence does not end it.
func (q *Asker) Ask(ctx context.Context, p *pb.Prompt) (chunks []*pb.Chunk, err error) {
	p.IgnoreEos = true
	stream, err := q.Client.Prompt(ctx, p)
	if err != nil {
		return nil, err
	}
	for c, err := range stream.Chunks() {
		if err != nil {
			return nil, err
		}
		if err := client.Failure(c); err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}
