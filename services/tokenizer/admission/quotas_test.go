package admission

import (
	"fmt"
	"strings"
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
	if n := len(q.used); n > maxTenants+len(q.granted.Load().config) {
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

// A minute's requests are a bound, what is left of each bound is told, and other quotas count at once.
func TestRates(t *testing.T) {
	a := &Admission{members: roll(nil), demand: newDemand(), metrics: telemetry.NewMetrics(prometheus.NewRegistry()), quotas: newQuotas(map[string]Quota{"acme": {RequestsPerMinute: 3, TokensPerMinute: 600}}, time.Hour)}
	take := func(id string) error {
		r := Request{ID: id, Flow: schemas.Flow{Tenant: "acme", Class: schemas.ClassNormal}}
		now := time.Now()
		if err := a.checkQuotas(r, now); err != nil {
			return err
		}
		a.spend(r, 100, now)
		return nil
	}
	for i := range 3 {
		if err := take(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := take("more"); err == nil || !strings.Contains(err.Error(), "3 requests that it may have a minute") {
		t.Errorf("beyond its requests: %v", err)
	}
	l := a.Limits("acme")
	if l.Requests.Most != 3 || l.Requests.Left != 0 || l.Requests.Reset <= 0 || l.Requests.Reset > time.Minute || l.Tokens.Most != 600 || l.Tokens.Left < 300 || l.Tokens.Left > 302 {
		t.Errorf("%+v", l)
	}
	if l := a.Limits("other"); l != (schemas.Allowance{}) {
		t.Errorf("a tenant without bounds: %+v", l)
	}
	a.SetQuotas(map[string]Quota{"acme": {TokensPerMinute: 200}})
	if err := take("after"); err == nil || !strings.Contains(err.Error(), "200 tokens") {
		t.Errorf("under the new quota: %v", err)
	}
	a.SetQuotas(map[string]Quota{EveryoneElse: {RequestsPerMinute: 4}})
	if err := take("at last"); err != nil {
		t.Errorf("what it had counts, and one is left: %v", err)
	}
}
