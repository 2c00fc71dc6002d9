package engine

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// A sequence that has ended is settled: one whose steps panic is given up.
func TestFinished(t *testing.T) {
	s := &ender{log: slog.New(slog.DiscardHandler), tasks: &sync.WaitGroup{}}
	b := realBench(t, 8)
	whole, faulty := b.ask("a", 3, 1, ""), b.ask("b", 3, 1, "")
	b.add(whole)
	b.add(faulty)
	faulty.fault = &panicError{"index out of range"}
	s.finished(whole)
	s.finished(faulty)
	s.tasks.Wait()
	if p := delivered(whole); p.acks != 1 || p.ended != nil {
		t.Errorf("%+v", p)
	}
	if p := delivered(faulty); p.acks != 0 || !bus.IsGivenUp(p.ended) {
		t.Errorf("%+v", p)
	}
}
