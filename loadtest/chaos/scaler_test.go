package chaos

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// A scaler that plans is suspended, another one takes over, and the first wakes up;
// then the second is killed. There is no Kafka, so that they plan by the hosts that
// come and go. Requests have the tokens that they have alone, and no plan is written
// by a scaler of an earlier epoch than one before it.
func TestScalersTakeOver(t *testing.T) {
	if wanted(t) == short {
		t.Skip("this takes a minute, and services/scaler has the fencing alone: set SWITCHYARD_CHAOS to 1 or long")
	}
	y := startPipeline(t, fleet.Build(t), "unacked")
	y.Scale(1, 2)
	y.alone()
	written := y.followPlans()
	first := y.scaler()
	first.Await(t, "scaling=moeless+lean")
	second := y.scaler()
	y.addHost(written)
	y.batch("scaler-hangs", func() { first.Hang(t) })
	second.Await(t, "scaling=moeless+lean")
	suspended := written.epoch()
	y.addHost(written)
	if now := written.epoch(); now <= suspended {
		t.Errorf("the plan's epoch went from %d to %d when another scaler took over", suspended, now)
	}
	y.batch("scaler-wakes", func() { first.Wake(t); y.Kill("expert") })
	y.addHost(written)
	y.batch("scaler-killed", func() { second.Kill(); y.Forget("scaler", second) })
	first.Await(t, `stands by" service=scaler`) // it has learnt that it was not the one any more
	y.addHost(written)
	written.check(t)
	t.Log("\n" + y.table())
}

// scaler starts one that is told of a Kafka that is not there.
func (y *pipeline) scaler() *fleet.Process {
	y.T.Helper()
	p := y.Add("scaler", "--kafka", testkit.FreeAddr(y.T))
	p.Await(y.T, "ready")
	return p
}

// addHost adds an expert host, and waits until all gates' plans have it.
func (y *pipeline) addHost(w *written) {
	y.T.Helper()
	before := w.count()
	y.Add("expert").Await(y.T, "ready")
	for limit := time.Now().Add(patience); w.count() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			y.T.Fatal("a host came, and no plan was written")
		}
	}
}
