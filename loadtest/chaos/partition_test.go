package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/proxies"
	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// routes are the ways between the servers of a cluster, by who looks for whom.
type routes struct {
	t   *testing.T
	via map[[2]int]*proxies.Link
}

// add makes the way from one server to another one, which listens at addr.
func (r *routes) add(from, to int, addr string) string {
	r.t.Helper()
	l, err := proxies.New(fmt.Sprintf("route-%d-%d", from, to), addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(l.Close)
	r.via[[2]int{from, to}] = l
	return strings.TrimPrefix(l.URL(), "nats://")
}

// cut swallows all that two servers send each other; their connections stay open.
func (r *routes) cut(a, b int) {
	r.t.Helper()
	for _, pair := range [][2]int{{a, b}, {b, a}} {
		if err := r.via[pair].Spoil(schedule.Partition, 0); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *routes) heal() {
	for _, l := range r.via {
		l.Heal()
	}
}

// Two of three servers cannot reach each other while answers stream, and then one
// is cut off from both: the log's leader each time.
func TestClusterPartition(t *testing.T) {
	r := &routes{t: t, via: map[[2]int]*proxies.Link{}}
	c := newCluster(t, fleet.Settings{RouteVia: r.add})
	leader := func() int { return c.index(c.leader()) }
	c.during("two-apart", func() {
		a := leader()
		r.cut(a, (a+1)%3)
		time.Sleep(outage)
		r.heal()
	})
	c.during("one-cut-off", func() {
		a := leader()
		r.cut(a, (a+1)%3)
		r.cut(a, (a+2)%3)
		time.Sleep(2 * outage)
		r.heal()
	})
}
