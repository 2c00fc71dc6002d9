package layer

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// While nobody could take rows patience stands still, however long that lasts, and they go out
// at once when somebody is back.
func TestNobodyCouldTakeRows(t *testing.T) {
	for name, away := range map[string]func(y *fakeLayer, away bool){
		"the server hangs": func(y *fakeLayer, away bool) { y.conn.hung.Store(away) },
		"a stage is away": func(y *fakeLayer, away bool) {
			if y.to.away.Store(""); away {
				y.to.away.Store("no gate is ready")
			}
		},
		"functions are nowhere": func(y *fakeLayer, away bool) {
			if y.to.trouble.Store(""); away {
				y.to.trouble.Store("gate-1: no host has function 3")
			}
		},
	} {
		for _, length := range []time.Duration{time.Second, 20 * time.Second, 90 * time.Second, time.Hour} {
			t.Run(name+" for "+length.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y, r := newFakeLayer(t, 8)
					var gone atomic.Bool
					gone.Store(true)
					y.fault = func(*pb.Hidden) ([]*pb.Block, error, bool) { return nil, nil, gone.Load() }
					away(y, true)
					time.AfterFunc(length, func() {
						gone.Store(false)
						away(y, false)
						y.x.hurryAll() // as See does
					})
					began := time.Now()
					checkLayer(t, r, 2)
					if beyond := time.Since(began) - length; beyond > minPatience {
						t.Errorf("rows stood still for %v more", beyond)
					}
				})
			})
		}
	}
}

// Before a stage is back rows were sent in vain: that counts no more then.
func TestPatienceBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 8)
		began := time.Now()
		var back atomic.Pointer[time.Time]
		y.fault = func(*pb.Hidden) ([]*pb.Block, error, bool) {
			at := back.Load()
			return nil, nil, at == nil || time.Since(*at) < 10*time.Second
		}
		time.AfterFunc(20*time.Second, func() { y.to.away.Store("no gate is ready") })
		time.AfterFunc(40*time.Second, func() {
			now := time.Now()
			y.to.away.Store("")
			back.Store(&now)
		})
		checkLayer(t, r, 2)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// An error names what was missing.
func TestMissingIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 8)
		y.fault = lost(math.MaxUint32)
		y.to.away.Store("no gate is ready")
		time.AfterFunc(time.Minute, func() { y.to.away.Store("") })
		_, _, err := layer(t.Context(), r, 2)
		if err == nil || !strings.Contains(err.Error(), "missing meanwhile: no gate is ready") {
			t.Errorf("%v", err)
		}
	})
}

// What lacks behind is known of each stage, and its return hurries what waits.
func TestReturn(t *testing.T) {
	y, r := newFakeLayer(t, 8)
	y.x.enlist(1, r)
	roster := &fakeRoster{}
	l := &Layer{Exchange: y.x, Peers: &Peers{gateRoster: roster, aggregatorRoster: roster, expertRoster: roster}}
	member := func(service, trouble string) *pb.Member {
		return &pb.Member{Id: service, Service: service, Ready: true, Trouble: trouble}
	}
	gate, aggregator, host := member("gate", ""), member("aggregator", ""), member("expert", "")
	for i, step := range []struct {
		all     []*pb.Member
		absent  string
		hurries int
	}{
		{nil, "no aggregator", 0},
		{[]*pb.Member{gate, aggregator}, "no expert host", 0},
		{[]*pb.Member{gate, aggregator, host}, "", 1},
		{[]*pb.Member{gate, aggregator, host}, "", 0},
		{[]*pb.Member{aggregator, host}, "no gate", 0},
		{[]*pb.Member{member("gate", "a function is nowhere"), aggregator, host}, "", 0},
		{[]*pb.Member{gate, aggregator, host}, "", 1},
		{[]*pb.Member{gate, host}, "no aggregator", 0},
		{[]*pb.Member{gate, aggregator, host}, "", 1},
	} {
		l.See(step.all)
		absent := ""
		if err := l.Peers.absent(); err != nil {
			absent = err.Error()
		}
		if !strings.Contains(absent, step.absent) || (absent == "") != (step.absent == "") || len(r.hurried) != step.hurries {
			t.Errorf("look %d: %q is absent, hurried %d times", i, absent, len(r.hurried))
		}
		for len(r.hurried) > 0 {
			<-r.hurried
		}
	}
}
