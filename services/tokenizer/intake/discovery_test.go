package intake_test

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// `nats micro` finds the services, and what they say is in its form.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	describe := func(subject string, into any) {
		t.Helper()
		m, err := r.NC.Request(subject, nil, testkit.Patience)
		if err != nil || json.Unmarshal(m.Data, into) != nil {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	var ping micro.Ping
	describe("$SRV.PING.switchyard-ask", &ping)
	if ping.Type != micro.PingResponseType || ping.Name != "switchyard-ask" || ping.ID == "" {
		t.Errorf("ping %+v", ping)
	}
	r.Send(r.D.Subjects.Ask(), r.Inbox().Subject, []byte("{"), nil)
	var info micro.Info
	describe("$SRV.INFO.switchyard-ask."+ping.ID, &info)
	if len(info.Endpoints) != 2 || info.Endpoints[0].Subject != r.D.Subjects.Ask() || info.Endpoints[1].Subject != "switchyard.ask.demo.*.*" {
		t.Errorf("info %+v", info)
	}
	var stats micro.Stats
	r.Eventually("the request is counted", func() bool {
		describe("$SRV.STATS.switchyard-ask."+ping.ID, &stats)
		return len(stats.Endpoints) == 2 && stats.Endpoints[0].NumRequests == 1
	})
}
