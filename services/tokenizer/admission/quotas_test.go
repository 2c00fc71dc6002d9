package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/schemas"
)

func TestLogUse(t *testing.T) {
	var u logUse
	q := newQuotas(nil, 150*time.Minute)
	at := func(after time.Duration) int64 { return q.slot(q.begun.Add(after)) }
	u.live = 5
	u.keep(100, at(0))
	u.keep(10, at(time.Hour))
	u.keep(-90, at(0)) // packed
	for after, want := range map[time.Duration]int64{0: 25, time.Hour: 25, 140 * time.Minute: 25, 170 * time.Minute: 15, 4 * time.Hour: 5} {
		if got := u.bytes(at(after)); got != want {
			t.Errorf("%v later it has %d bytes, want %d", after, got, want)
		}
	}
}

// Logs age by the time that passes, whatever a host's clock is set to meanwhile.
func TestLogUseOfAHostWhoseClockIsSet(t *testing.T) {
	const age = time.Hour
	for _, tc := range []struct {
		name      string
		after, by time.Duration
		refused   bool
	}{
		{"forward", time.Second, 24 * time.Hour, true},
		{"back", 2 * age, -24 * time.Hour, false},
	} {
		s := &Admission{shards: func() int { return 1 }, metrics: telemetry.NewMetrics(prometheus.NewRegistry()), quotas: newQuotas(map[string]Quota{EveryoneElse: {LogBytes: 1000}}, age)}
		now := time.Now()
		s.Kept("acme", 100, now) // of one shard of eight
		in := Request{Flow: schemas.Flow{Tenant: "acme"}}
		if err := s.checkLog(in, 300, testkit.WallSet(t, now.Add(tc.after), tc.by)); (err != nil) != tc.refused {
			t.Errorf("%s: refused by %v", tc.name, err)
		}
	}
}

// Names that a producer makes up are forgotten again, and no other tenant pays for them.
func TestManyTenants(t *testing.T) {
	q := newQuotas(map[string]Quota{"acme": {Waiting: 1}, EveryoneElse: {Waiting: 1}}, time.Hour)
	spend := func(tenant string) { q.with(tenant, func(u *usage) { u.log.live++ }) }
	spend("acme")
	for i := range 2 * maxTenants {
		spend(fmt.Sprint("made-up-", i))
	}
	if n := len(q.used); n > maxTenants+len(q.config) {
		t.Errorf("%d tenants are remembered", n)
	}
	for tenant, want := range map[string]int64{"acme": 1, "newcomer": 0} {
		q.with(tenant, func(u *usage) {
			if u.log.live != want {
				t.Errorf("%s has %d, want %d", tenant, u.log.live, want)
			}
		})
	}
}
