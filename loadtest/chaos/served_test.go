package chaos

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/asking"
	"github.com/switchyard/switchyard/loadtest/chaos/report"
)

// TestServed asks services that somebody else runs, at SWITCHYARD_CHAOS_NATS, and
// judges their answers in the same way. Faults are what the program does that
// SWITCHYARD_CHAOS_EXEC names: it gets the kind, the service, the replica and the
// seconds of each fault as its arguments, and returns when it has done it. Without
// one nothing goes wrong but what happens there by itself.
func TestServed(t *testing.T) {
	url := variable("NATS", "")
	if url == "" {
		t.Skip("set SWITCHYARD_CHAOS_NATS to the URL of a server with services")
	}
	c := settingsOf(t, served)
	l := dial(t, c, url)
	if err := l.Reference(t.Context()); err != nil {
		t.Fatalf("the reference run: %v", err)
	}
	r := &report.Run{Title: "served"}
	whileAsking(t, l, func() { r.Hits, r.Problems = c.strike(t, l) })
	l.Again(t.Context())
	r.Load = l.Result()
	r.Attribute()
	c.check(t, r, report.ByService)
}

// strike has the program do a schedule's faults, one after the other.
func (c config) strike(t *testing.T, l *asking.Load) (hits []report.Hit, problems []string) {
	t.Helper()
	program, began := variable("EXEC", ""), l.Now()
	if program == "" {
		time.Sleep(c.Length)
		return nil, nil
	}
	for _, f := range c.plan(t) {
		time.Sleep(f.At - (l.Now() - began))
		hit := report.Hit{Fault: f, Began: l.Now()}
		if out, err := exec.CommandContext(t.Context(), program, f.Arguments()...).CombinedOutput(); err != nil {
			problems = append(problems, fmt.Sprintf("%v: %s: %v: %s", f, program, err, out))
		}
		hit.Back = l.Now()
		hits = append(hits, hit)
	}
	return hits, problems
}
