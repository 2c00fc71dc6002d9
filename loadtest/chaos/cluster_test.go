package chaos

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// cluster is a pipeline on three NATS servers.
type cluster struct {
	*pipeline
	js jetstream.JetStream
}

func newCluster(t *testing.T, s fleet.Settings) *cluster {
	t.Helper()
	wantsCluster(t)
	hops := cmp.Or(os.Getenv("SWITCHYARD_HOPS"), "unacked")
	s.Programs, s.Servers, s.ServerConfig, s.Flags = fleet.Build(t), 3, fleet.Deployed, append(s.Flags, "--hops", hops)
	y := startFleet(t, s, hops)
	js, err := jetstream.New(connect(t, y.URL()))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{pipeline: y, js: js}
	y.Scale(2, 2)
	y.alone()
	t.Cleanup(func() { t.Log("\n" + stallTable(y.rows)) })
	return c
}

func wantsCluster(t *testing.T) {
	t.Helper()
	if os.Getenv("SWITCHYARD_CLUSTER") == "" || testing.Short() {
		t.Skip("SWITCHYARD_CLUSTER is not set, or -short is: this takes minutes")
	}
}

// Each server ends as by kill -9 while answers stream, the leader of the token
// log first, and comes back; one of them without what it had stored.
func TestClusterKill(t *testing.T) {
	c := newCluster(t, fleet.Settings{})
	c.during("kill-leader", func() { s := c.leader(); s.Kill(); s.Start() })
	for _, s := range c.Servers {
		c.during("kill-"+s.Name, func() { s.Kill(); time.Sleep(outage); s.Start() })
	}
	c.during("empty", func() { s := c.leader(); s.Kill(); s.Empty(); s.Start() })
}

// A server hangs for so long that the others have cut it off and led on without it.
func TestClusterHang(t *testing.T) {
	c := newCluster(t, fleet.Settings{})
	for _, s := range c.Servers {
		c.during("hang-"+s.Name, func() { s.Hang(t); time.Sleep(hungFor); s.Wake(t) })
	}
}

// Every server and every replica is asked to end, and started again, one after the
// other: a rolling upgrade.
func TestClusterRolls(t *testing.T) {
	c := newCluster(t, fleet.Settings{})
	for _, s := range c.Servers {
		c.during("roll-"+s.Name, func() {
			_ = s.End() // a server's code after SIGTERM is not 0
			s.Start()
		})
	}
	for _, kind := range fleet.Kinds {
		c.during("roll-"+kind, func() { c.roll(kind) })
	}
}

// roll has other processes take the places of all replicas of a kind.
func (c *cluster) roll(kind string) {
	c.T.Helper()
	for range c.Count(kind) {
		p := c.First(kind)
		p.Drain(c.T)
		c.Forget(kind, p)
		c.Add(kind).Await(c.T, "ready")
	}
}

// outage is how long a server is away: longer than the election of another leader.
const outage = 10 * time.Second

// hungFor is beyond two elections, and beyond when clients leave a server that does nothing.
const hungFor = 25 * time.Second

// during runs a batch in the middle of which something happens to servers, reads
// its answers again, and waits until all is well.
func (c *cluster) during(name string, trouble func()) {
	c.T.Helper()
	c.batch("nats-"+name, trouble)
	c.replayed("nats-" + name)
	c.awaitCurrent()
}

// leader is the server that leads the token log.
func (c *cluster) leader() *fleet.Server {
	c.T.Helper()
	s, err := c.Leader(c.T.Context())
	if err != nil {
		c.T.Fatal(err)
	}
	return s
}

func (c *cluster) index(s *fleet.Server) int { return slices.Index(c.Servers, s) }

// recovery bounds how long a server may take to have all that the others have.
const recovery = time.Minute

// awaitCurrent waits until every stream has a leader and every copy is up to date.
func (c *cluster) awaitCurrent() {
	c.T.Helper()
	var behind string
	for deadline := time.Now().Add(recovery); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if behind = c.behind(); behind == "" {
			return
		}
	}
	c.T.Fatalf("after %v: %s", recovery, behind)
}

// behind names a stream that is not whole; "" if all are.
func (c *cluster) behind() string {
	streams := c.js.ListStreams(c.T.Context())
	n := 0
	for info := range streams.Info() {
		n++
		if info.Cluster == nil || info.Cluster.Leader == "" {
			return info.Config.Name + " has no leader"
		}
		for _, p := range info.Cluster.Replicas {
			if !p.Current || p.Offline {
				return fmt.Sprintf("%s is not current on %s", info.Config.Name, p.Name)
			}
		}
	}
	if err := streams.Err(); err != nil {
		return err.Error()
	}
	if n == 0 {
		return "there are no streams"
	}
	return ""
}

// stallTable shows how long streams stood still.
func stallTable(rows []row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\topen\tstall p50 s\tp99 s\tmax s\tre-issues\tredeliveries\ttakeovers\trepeats\ttook s")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%d\t%.1f\n", r.scenario, r.open,
			stalled(r, 0.5), stalled(r, 0.99), stalled(r, 1), r.reissues, r.redeliveries, r.takeovers, r.repeats, r.took.Seconds())
	}
	w.Flush()
	return b.String()
}

// stalled is a quantile of the requests' stalls, in seconds.
func stalled(r row, q float64) float64 {
	var seconds []float64
	for _, d := range r.stalls {
		seconds = append(seconds, d.Seconds())
	}
	slices.Sort(seconds)
	return quantile.Of(seconds, q)
}
