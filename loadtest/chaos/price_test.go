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

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// rounds of the requests that each setting is measured with, beside a first one.
const rounds = 5

// What copies and writing through to the disk cost, with one process of each
// service and all requests at once.
func TestClusterPrice(t *testing.T) {
	wantsCluster(t)
	programs, hops := fleet.Build(t), cmp.Or(os.Getenv("SWITCHYARD_HOPS"), "core")
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "servers\tcopies\tsync_interval\ttokens/s, median\tleast\tmost")
	for _, servers := range []int{1, 3} {
		for _, sync := range []string{"2m", "always"} {
			t.Run(fmt.Sprint(servers, sync), func(t *testing.T) {
				r := price(startFleet(t, fleet.Settings{
					Programs: programs, Servers: servers, Flags: []string{"--hops", hops}, ServerConfig: fleet.Deployed,
					JetStream: "sync_interval: " + sync,
				}, hops))
				fmt.Fprintf(w, "%d\t%d\t%s\t%.0f\t%.0f\t%.0f\n", servers, servers, sync, r[rounds/2], r[0], r[rounds-1])
			})
		}
	}
	w.Flush()
	t.Log("\n" + b.String())
}

// price is the tokens a second of each round, the least first.
func price(y *pipeline) (rates []float64) {
	y.T.Helper()
	y.Scale(1, 1)
	for round := range rounds + 1 {
		begun := time.Now()
		y.load.batch(fmt.Sprintf("price-%d", round), true, func() {})
		if round > 0 {
			rates = append(rates, requests*tokens/time.Since(begun).Seconds())
		}
	}
	slices.Sort(rates)
	return rates
}
