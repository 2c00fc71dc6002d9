package tokenizer

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// destination is where and how chunks go.
type destination struct {
	subject  string
	origin   origin
	tenant   string // whose answer goes there; "": nobody knows, or it is nobody's
	encoding pb.Encoding
	from     int32 // the index of the first chunk that is sent
	// probed asks the server to tell when nobody listens any more, and stream
	// says whose reader that is: 0 is the request's own.
	probed bool
	stream uint64
	// replay says that what is refused is a replay, and not the request.
	replay bool
}

// destinationOf is where the producer of a request gets its chunks.
func destinationOf(a *pb.Accept) destination {
	to := destination{subject: a.ReplyTo, encoding: a.Encoding, from: beginning(a.FromIndex), probed: a.Interactive}
	if a.Interactive {
		to.origin = inbox
	}
	return to
}

// errCut says that a stream was ended by an error, because a chunk of it does
// not fit a message: nothing comes after that.
var errCut = errors.New("a chunk is too large for a message")

// deliver publishes a chunk if the destination wants it.
func (s *Service) deliver(_ context.Context, to destination, c *pb.Chunk) error {
	if to.subject == "" || !wants(c, to.from) {
		return nil
	}
	err := s.send(to, c)
	var large *bus.TooLargeError
	if !errors.As(err, &large) {
		return err
	}
	small := edge.Refusal(c.RequestId, edge.Errorf(edge.PayloadTooLarge,
		"chunk %d does not fit the server's limit of %d bytes; ask for less (score logprobs instead of logits), or use protobuf", c.Index, large.Limit))
	small.Index = c.Index
	return errors.Join(errCut, s.send(to, small))
}

func (s *Service) send(to destination, c *pb.Chunk) error {
	msgs, err := edge.EncodeChunk(to.encoding, to.subject, c)
	if err != nil {
		return fmt.Errorf("encoding a chunk: %w", err)
	}
	for _, m := range msgs {
		if to.probed && c.FinishReason == "" {
			m.Reply = s.d.Subjects.Probe(s.id, c.RequestId, to.stream)
		}
		if to.replay {
			m.Header.Set(schemas.HeaderRefused, "replay")
		}
		if err := s.publish(to, m); err != nil {
			return err
		}
	}
	return nil
}
