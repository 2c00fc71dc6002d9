package chaos

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

const (
	// slowBatches is how many times all requests are sent while a host is slow, and
	// fairShare what it may have at the end: both have all functions.
	slowBatches = 4
	fairShare   = 0.25
	// applied is when hosts have loaded what a plan wants.
	applied = 3 * time.Second
)

// slowRow is a batch, and the share of the host with fewer rows.
type slowRow struct {
	row
	share float64
}

// One of two hosts that both have all functions gets a tenth of the processor: it
// answers, and is no dead one. Its share falls, and answers do not change.
func TestSlowReplica(t *testing.T) {
	if wanted(t) == short {
		t.Skip("SWITCHYARD_CHAOS is short")
	}
	programs := fleet.Build(t)
	y := startPipeline(t, programs, "unacked")
	y.Scale(2, 2)
	y.replicas(programs, 2)
	y.alone()
	var rows []slowRow
	defer func() { t.Log("\n" + slowTable(rows)) }()
	rows = append(rows, y.shared("both-fast", nil))
	var wake func()
	for i := range slowBatches {
		rows = append(rows, y.shared(fmt.Sprintf("slow-%d", i), func() {
			if i == 0 {
				wake = y.First("expert").Slow(t)
			}
		}))
	}
	wake()
	if last := rows[slowBatches]; last.share > fairShare {
		t.Errorf("a host that is ten times as slow has %.2f of the rows; %.2f is its share at most", last.share, fairShare)
	}
	rows = append(rows, y.shared("both-fast-again", nil))
}

// replicas has so many hosts run each function from now on.
func (y *pipeline) replicas(programs string, n int) {
	y.T.Helper()
	set := exec.CommandContext(y.T.Context(), filepath.Join(programs, "switchyard"), "plan", "set", "--nats", y.URL(), "--replicas", fmt.Sprint(n))
	if out, err := set.CombinedOutput(); err != nil {
		y.T.Fatalf("setting replicas: %v\n%s", err, out)
	}
	time.Sleep(applied)
}

// shared is a batch, and how its rows were shared.
func (y *pipeline) shared(name string, trouble func()) slowRow {
	y.T.Helper()
	before := y.stats.rows()
	r := slowRow{row: y.batch(name, trouble), share: 1}
	sum := 0.0
	after := y.stats.rows()
	for id := range after {
		sum += after[id] - before[id]
	}
	for id := range after {
		r.share = min(r.share, (after[id]-before[id])/max(1, sum))
	}
	return r
}

// rows are those that each expert host has computed.
func (s *stats) rows() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]float64{}
	for id, m := range s.members {
		if strings.HasPrefix(id, "expert-") {
			out[id] = m["rows_total"]
		}
	}
	return out
}

func slowTable(rows []slowRow) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "requests\tshare of one host\tfirst s\tstall s\tre-issues\ttook s")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.0f\t%.1f\n", r.scenario, r.share, r.first.Seconds(), r.stall.Seconds(), r.reissues, r.took.Seconds())
	}
	w.Flush()
	return b.String()
}
