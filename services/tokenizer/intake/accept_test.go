package intake

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Of a log that cannot be opened a producer hears what will not pass by itself; all else
// is tried again, with what says when.
func TestNotOpened(t *testing.T) {
	full := &jetstream.APIError{Code: 503, ErrorCode: 10077}
	for _, c := range []struct {
		name      string
		err       error
		delivered int
		code      edge.Code // "": the producer is told nothing
	}{
		{"full", full, 1, edge.Overloaded},
		{"full for one that came again", full, 2, ""},
		{"too large", &bus.TooLargeError{Size: 2, Limit: 1}, 1, edge.PayloadTooLarge},
		{"without its beginning", fmt.Errorf("%w: x", tokenlog.ErrNotWhole), 1, edge.BadRequest},
		{"another's", bus.Elsewhere(0, errors.New("theirs")), 1, ""},
	} {
		var told *edge.Error
		err := notOpened(&incoming{prompt: &pb.Prompt{RequestId: "x"}, delivered: c.delivered}, c.err)
		if errors.As(err, &told); told == nil && (c.code != "" || !errors.Is(err, c.err)) || told != nil && told.Code != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
