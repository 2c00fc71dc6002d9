package scaler

import (
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/members"
)

// A gate that tells of rows which no hosts have computed changes no plan, and is named: once in
// the log, and among what the scaler announces.
func TestForgedRows(t *testing.T) {
	y := newStage(t, 3)
	y.apart()
	for _, p := range y.experts {
		p.Set(members.HostRows, 0)
	}
	s, _ := y.scaler(testConfig())
	testkit.Eventually(t, "it reads, and hosts say what they compute", func() bool {
		_, said := s.computed()
		return len(y.topic.members()) == 1 && said && y.metric("switchyard_plan_decision_seconds") > 0
	})
	y.settled()
	check := y.unhurried(0)
	const forged = 1500 // more than wait for hosts' word
	for range forged {
		y.rows(0, 1_000_000)
	}
	testkit.Eventually(t, "it is named", func() bool { return y.log.count("gate=gate-a") > 0 })
	testkit.Eventually(t, "it is counted", func() bool { return y.metric("switchyard_scaler_refused_samples_total") > 1 })
	check()
	if n := y.log.count("gate=gate-a"); n != 1 {
		t.Errorf("%d lines name the gate", n)
	}
	testkit.Eventually(t, "operators hear of it", func() bool {
		for _, m := range members.OfService(s.view.Snapshot(), "scaler") {
			if m.Stats[members.Doubted+"gate-a"] > 1 {
				return true
			}
		}
		return false
	})
}
