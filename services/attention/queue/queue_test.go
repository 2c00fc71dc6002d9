package queue

import (
	"testing"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// A request waits from when it is pulled until a step has a row of it; canaries are not counted.
func TestBacklog(t *testing.T) {
	line, w := &engine.Line{}, newWaiting()
	q := &Queue{places: places{line: line, waiting: w}}
	is := func(want int, when string) {
		t.Helper()
		if q.Backlog() != want {
			t.Errorf("%s: %d wait, want %d", when, q.Backlog(), want)
		}
	}
	is(0, "idle")
	all := arrivals(nil, "a1", "a2", "canary")
	all[2].msg.Accept = &pb.Accept{Tenant: schemas.CanaryTenant, Class: string(schemas.ClassHigh)}
	w.joinAll(all)
	is(2, "before their turn")
	w.leave("a1")
	line.Enter()
	is(2, "one is claimed")
	line.Entered()
	is(1, "it was not admitted")
}
