package tokenlog

import (
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testcluster"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// In a cluster, a server that lacks what a writer built upon may be one that is
// behind: the request is not lost by that, and goes on when the server has it.
func TestWriterOutlivesAServerThatIsBehind(t *testing.T) {
	r := &rig{t: t}
	conn := r.connect(strings.TrimPrefix(testcluster.Start(t).URL(), "nats://"))
	if err := conn.Ensure(r.ctx(), 0, names.Tokens()); err != nil {
		t.Fatal(err)
	}
	r.log = New(conn, names, r.as("a"))
	r.accept("r")
	w, _ := r.claim(r.log, "r", WriterSettings{})
	built := w.last
	w.last += 100 // which that server has not seen
	appendAll(t, w, token(0))
	r.eventually("it conflicts with nothing", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.lacks.IsZero()
	})
	w.mu.Lock()
	w.last = built // as if the server had caught up
	w.mu.Unlock()
	r.flush(w)
	if got := kinds(r.read("r")); got != "A C1 0" {
		t.Errorf("the log has %s", got)
	}
	w.lacks = time.Now().Add(-2 * bus.SettlesWithin)
	if w.mayCome() {
		t.Error("it waits for ever")
	}
}
