package queue

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// fakeEngine has no sequences.
type fakeEngine struct {
	Engine
	line engine.Line
}

func (f *fakeEngine) Line() *engine.Line                { return &f.line }
func (f *fakeEngine) Owns(context.Context, string) bool { return false }

// fakeMembers are those that the test has come.
type fakeMembers struct {
	Members
	mu      sync.Mutex
	all     []*pb.Member
	changed chan struct{}
}

func newMembers(all ...*pb.Member) *fakeMembers {
	return &fakeMembers{all: all, changed: make(chan struct{}, 1)}
}

func (f *fakeMembers) Snapshot() []*pb.Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

func (f *fakeMembers) come(m *pb.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, m)
	f.changed <- struct{}{}
}

// Follow implements Members.
func (f *fakeMembers) Follow(ctx context.Context, fn func([]*pb.Member)) {
	for ctx.Err() == nil {
		fn(f.Snapshot())
		select {
		case <-ctx.Done():
		case <-f.changed:
		}
	}
}
