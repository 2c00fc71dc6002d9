package expert

import (
	"sync"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/forward"
	"github.com/switchyard/switchyard/pkg/model"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// An expert that a new plan gives back to this host is warm when the plan is
// applied, whatever an old function's eviction does meanwhile.
func TestEvictAgainstANewPlan(t *testing.T) {
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	defer p.Close()
	id := forward.ExpertID{}
	old := &function{spec: function1("old", "here", 0)}
	again := []*pb.LayerPlan{{Functions: []*pb.Function{function1("new", "here", 0, 1)}}}
	for range 300 {
		s := &Service{id: "here", functions: map[string]*function{}, bank: forward.NewBank(m, p)}
		if err := s.bank.Load(id); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() { s.evict(old) })
		both.Go(func() {
			s.expect(again)
			if err := s.bank.Load(id); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if len(s.bank.Warm()) != 1 {
			t.Fatal("the expert of the new plan was evicted")
		}
	}
}
