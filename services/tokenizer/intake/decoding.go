package intake

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// decodingBytes bounds what prompts that are read and tokenized at a time may take in
	// memory beside their bodies. What would take more alone is alone.
	decodingBytes = 64 << 20
	// smallDecoding is what does not wait: so many at once are few beside the others.
	smallDecoding = 128 << 10
	// What bodies, texts, and values in JSON for the chat template take at most, about,
	// for each of their bytes.
	perBodyByte, perTextByte, perValueByte = 8, 8, 64
)

// decoding lets as many prompts be read at a time as there is memory for, in the order in
// which they come; small ones at once.
type decoding struct{ room *semaphore.Weighted }

func newDecoding() decoding { return decoding{semaphore.NewWeighted(decodingBytes)} }

// enter waits for room; leave gives it back.
func (d decoding) enter(ctx context.Context, bytes int64) (leave func(), err error) {
	if bytes <= smallDecoding {
		return func() {}, nil
	}
	bytes = min(bytes, decodingBytes)
	if err := d.room.Acquire(ctx, bytes); err != nil {
		return nil, fmt.Errorf("waiting for room to read a prompt: %w", err)
	}
	return func() { d.room.Release(bytes) }, nil
}

// decodedBytes is what a body of so many bytes takes to be read.
func decodedBytes(body int) int64 { return perBodyByte * int64(body) }

// tokenizedBytes is what a prompt takes to become tokens.
func tokenizedBytes(p *pb.Prompt) int64 {
	text, values := len(p.Text), len(p.Tools)+len(p.ChatTemplateKwargs)
	for _, m := range p.Messages {
		text += len(m.GetContent()) + len(m.ReasoningContent)
		values += len(m.ToolCalls)
	}
	return perTextByte*int64(text) + perValueByte*int64(values)
}
