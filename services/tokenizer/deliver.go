package tokenizer

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/pkg/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// destination is where and how chunks go.
type destination struct {
	subject     string
	encoding    pb.Encoding
	from        int32
	interactive bool
}

func destinationOf(a *pb.Accept) destination {
	return destination{subject: a.ReplyTo, encoding: a.Encoding, from: a.FromIndex, interactive: a.Interactive}
}

// deliver publishes a chunk if the destination wants it. For an interactive
// request the server is asked to tell when nobody listens any more.
func (s *Service) deliver(ctx context.Context, to destination, c *pb.Chunk) error {
	if to.subject == "" || !wants(c, to.from) {
		return nil
	}
	msgs, err := edge.EncodeChunk(to.encoding, to.subject, c)
	if err != nil {
		return fmt.Errorf("encoding a chunk: %w", err)
	}
	for _, m := range msgs {
		if to.interactive && c.FinishReason == "" {
			m.Reply = s.d.Subjects.Probe(s.id, c.RequestId)
		}
		if int64(len(m.Data)) > s.d.Conn.MaxPayload()-headerRoom {
			return s.tooLarge(ctx, to, c)
		}
		if err := s.d.Conn.NATS().PublishMsg(m); err != nil {
			return fmt.Errorf("publishing a chunk to %s: %w", to.subject, err)
		}
	}
	return nil
}

// headerRoom is left for a message's headers.
const headerRoom = 4096

// tooLarge replaces a chunk that the server would not take.
func (s *Service) tooLarge(ctx context.Context, to destination, c *pb.Chunk) error {
	err := edge.Errorf(edge.PayloadTooLarge, "chunk %d does not fit the server's limit of %d bytes; ask for less (score logprobs instead of logits), or use protobuf",
		c.Index, s.d.Conn.MaxPayload())
	small := edge.Refusal(c.RequestId, err)
	small.Index = c.Index
	return s.deliver(ctx, to, small)
}
