package aggregator

import (
	"context"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// Small partials that claim large groups cost what they carry.
func TestClaimsOverTheWire(t *testing.T) {
	d := testdeployment.Open(t)
	s := New(d)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := heap()
	const messages = 300
	row := tensor.Encode(tensor.BF16, make([]float32, d.Model.Spec.Hidden), d.Model.Spec.Hidden, nil)
	for i := range messages {
		p := &pb.Partial{Place: []uint32{0}, Tensor: row, Key: &pb.Key{
			Version: schemas.Version, Model: d.Identity.Model, Owner: "attention-1", Step: uint64(i), Rows: 8192, Aggregator: s.id,
		}}
		if err := d.Hop.Send(t.Context(), d.Subjects.Partial(s.id), p); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "all groups", func() bool { return s.openGroups() == messages })
	if n, grown := s.openGroups(), heap()-before; n != messages || grown > messages*16<<10 {
		t.Errorf("%d open groups have taken %d bytes", n, grown)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// When Run returns, nothing of it goes on: after a stop, and also when the replica could not
// be announced.
func TestRunLeavesNothing(t *testing.T) {
	for name, lost := range map[string]bool{"stopped": false, "no connection": true} {
		t.Run(name, func(t *testing.T) {
			d := testdeployment.Open(t)
			s := New(d)
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if lost {
				d.Conn.Close()
			}
			before := goleak.IgnoreCurrent()
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			if !lost {
				testkit.Eventually(t, "it is announced", s.presence.Listens)
				stop()
			}
			if err := <-ended; (err != nil) != lost {
				t.Errorf("ended with %v", err)
			}
			if err := testleaks.Find(before); err != nil {
				t.Error(err)
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func (s *Service) openGroups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups.open)
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
