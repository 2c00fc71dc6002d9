package layer

import (
	"strings"
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

// Rows that replicas of another kind decline without end fail by an error that says so.
func TestDeclinedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 8)
		id := &wire.IdentityError{GotVersion: 3, WantVersion: 2}
		y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			return []*pb.Block{{Key: h.Key, Error: &pb.Error{Code: wire.Elsewhere, Message: "gate-1: " + id.Error()}}}, nil, true
		}
		x := make([]float32, width)
		p, err := r.Start(t.Context(), 3, x)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(t.Context(), x); err == nil || !strings.Contains(err.Error(), "gate-1: "+id.Error()) {
			t.Errorf("failed with %v", err)
		}
	})
}
