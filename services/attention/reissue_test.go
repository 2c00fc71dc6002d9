package attention

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Who leaves rows to others is heard also when they could not be sent once before.
func TestDeclineAfterFailedSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 8)
		sent := 0
		y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			switch sent++; sent {
			case 1: // lost
				return nil, nil, true
			case 2:
				return nil, nats.ErrDisconnected, true
			case 3:
				return []*pb.Block{{Key: h.Key, Error: &pb.Error{Code: wire.Elsewhere}}}, nil, true
			}
			return nil, nil, false
		}
		begun := time.Now()
		checkLayer(t, r, 1)
		if took := time.Since(begun); took > 2*minPatience+minLate {
			t.Errorf("the rows were sent again after %v", took)
		}
	})
}
