package admission

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func ask(tenant string, i int, share float64) Asker {
	return Asker{Tenant: tenant, Request: fmt.Sprint(tenant, i), Weight: 1, Share: share}
}

// One that takes all that it can be promised makes nobody else wait, and holds no more
// than its share of the places.
func TestLines(t *testing.T) {
	var l Lines
	for i := range 1000 {
		l.Give(ask("hot", i, 0.5), 0, 2, 0.1, 10)
	}
	give := func(a Asker, now, want float64) {
		t.Helper()
		if got := l.Give(a, now, 2, 0.1, 10); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is to come in %v s, want %v", a.Request, got, want)
		}
	}
	give(ask("hot", 1000, 0.5), 0, Horizon)
	give(ask("few", 0, 0.25), 0, 2)
	give(ask("few", 1, 0.25), 0, 2.4) // a quarter of the machine
	give(ask("few", 0, 0.25), 1, 1)   // too early: it stays
	held := func(a Asker, now float64, want int) {
		t.Helper()
		if n := l.Held(a, now, 40); n != want {
			t.Errorf("%d places are held from %s at %v, want %d", n, a.Request, now, want)
		}
	}
	held(ask("few", 9, 0.25), 1, 20+2)
	held(ask("few", 0, 0.25), 2, 0)
	held(ask("hot", 0, 0.5), 2, 0)
	for _, p := range l.Until(ask("few", 9, 0.25), 2, 2.3) {
		want := Promised{"hot", 1, 2, 20}
		if p.Tenant == "few" {
			want = Promised{"few", 1, 1, 10}
		}
		if p != want {
			t.Errorf("%+v, want %+v", p, want)
		}
	}
	if all := l.Until(ask("few", 0, 0.25), 2, 9); all != nil {
		t.Errorf("from one whose time it is: %v", all)
	}
	l.Keep("few", "few0")
	l.Keep("nobody", "few1")
	held(ask("few", 9, 0.25), 2, 20+1)
	held(ask("few", 9, 0.25), 2*Horizon, 0)
	if len(l.of) != 0 {
		t.Errorf("%d lines are kept in mind", len(l.of))
	}
}

// Whatever others ask, a tenant waits for its own alone.
func TestLinesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Lines
		var alone Promises
		shares := []float64{0.5, 0.3, 0.2}
		first, each := rapid.Float64Range(0, 10).Draw(t, "first"), rapid.Float64Range(0, 1).Draw(t, "each")
		now := 0.0
		for i, tenant := range rapid.SliceOfN(rapid.IntRange(0, 2), 1, 200).Draw(t, "tenants") {
			now += rapid.Float64Range(0, 0.5).Draw(t, "pause")
			a := ask(fmt.Sprint(tenant), i, shares[tenant])
			got := l.Give(a, now, first, each, 1)
			if tenant == 0 {
				if want := alone.Give(a.Request, now, first, each/a.Share, 1); want != got {
					t.Fatalf("beside others it waits %v s, alone %v s", got, want)
				}
			}
		}
	})
}

// Names that somebody makes up are forgotten again, and nobody has more promises than his share.
func TestLinesOfMany(t *testing.T) {
	var l Lines
	for i := range 2 * maxLines {
		l.Give(ask(fmt.Sprint(i, "-"), 0, 0.5), 0, 1, 0, 1)
	}
	for i := range maxPromises {
		l.Give(ask("0-", i, 0.25), 0, 1, 0, 1)
	}
	if n := len(l.of); n != maxLines {
		t.Errorf("%d tenants have promises, want %d", n, maxLines)
	}
	if n := len(l.of["0-"].given); n != maxPromises/4 {
		t.Errorf("one has %d promises, want %d", n, maxPromises/4)
	}
	if got := l.Give(ask("new", 0, 0.5), Horizon, 1, 0, 1); got != 1 || len(l.of) != 1 {
		t.Errorf("later one is to come in %v s, of %d tenants", got, len(l.of))
	}
}
