package members

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// still is a view that hears and ages only what the test says.
func still() *View {
	return &View{changed: make(chan struct{}), members: map[string]*entry{}, roll: newRollCall()}
}

// pass lets time go by in which nobody is heard but those named.
func (v *View) pass(d time.Duration, beating ...string) {
	for ; d > 0; d -= tick {
		v.expire(tick)
		for _, id := range beating {
			v.put(&pb.Member{Id: id, Service: service(id)})
		}
	}
}

func (v *View) farewell(id string) {
	v.put(&pb.Member{Id: id, Service: service(id), Draining: true})
	v.remove(id)
}

// service of "gate-1" is "gate".
func service(id string) string {
	s, _, _ := strings.Cut(id, "-")
	return s
}

func heardBy(r *Roster) (ids []string) {
	for _, m := range r.Heard() {
		ids = append(ids, m.Id)
	}
	return ids
}

// A roster is steady while everybody of its service is heard, and lists who is.
func TestRoster(t *testing.T) {
	a, b := "gate-a", "gate-b"
	for _, tc := range []struct {
		name     string
		run      func(v *View, r *Roster)
		steady   bool
		heard    []string
		silences uint64
	}{
		{"all are heard", func(v *View, r *Roster) { v.pass(2*TTL, a, b) }, true, []string{a, b}, 0},
		{"a late renewal", func(v *View, r *Roster) { v.pass(Interval+tick, a); v.pass(tick, a, b) }, true, []string{a, b}, 0},
		{"one is late", func(v *View, r *Roster) { v.pass(freshFor, a) }, true, []string{a}, 0},
		{"one is quiet", func(v *View, r *Roster) { v.pass(QuietAfter, a) }, false, []string{a}, 1},
		{"quiet and back", func(v *View, r *Roster) { v.pass(QuietAfter, a); v.pass(2*tick, a, b) }, true, []string{a, b}, 1},
		{"gone without a farewell", func(v *View, r *Roster) { v.pass(3*TTL, a) }, false, []string{a}, 1},
		{"gone and back", func(v *View, r *Roster) { v.pass(3*TTL, a); v.pass(2*tick, a, b) }, true, []string{a, b}, 1},
		{"gone for long", func(v *View, r *Roster) { v.pass(TTL+missFor+tick, a) }, true, []string{a}, 1},
		{"gone with a farewell", func(v *View, r *Roster) { v.farewell(b); v.pass(TTL, a) }, true, []string{a}, 0},
		{"a farewell of one that is missing", func(v *View, r *Roster) { v.pass(2*TTL, a); v.farewell(b); v.pass(tick, a) }, true, []string{a}, 1},
		{"another service's", func(v *View, r *Roster) { v.pass(tick, "expert-c"); v.pass(2*TTL, a, b) }, true, []string{a, b}, 0},
		{"all are quiet", func(v *View, r *Roster) { v.pass(QuietAfter) }, false, nil, 2},
		{"doubted", func(v *View, r *Roster) { r.Doubt() }, false, []string{a, b}, 0},
	} {
		v := still()
		r := v.Roster("gate")
		v.pass(tick, a, b)
		tc.run(v, r)
		if heard := heardBy(r); r.Steady() != tc.steady || !slices.Equal(heard, tc.heard) || r.Silences() != tc.silences {
			t.Errorf("%s: steady %v, heard %v, %d silences", tc.name, r.Steady(), heard, r.Silences())
		}
	}
}

// The one that was heard last comes first.
func TestHeardOrder(t *testing.T) {
	v := still()
	r := v.Roster("gate")
	v.pass(tick, "gate-a", "gate-b", "gate-c")
	v.pass(2*tick, "gate-c")
	v.pass(2*tick, "gate-b")
	if heard := heardBy(r); !slices.Equal(heard, []string{"gate-b", "gate-c", "gate-a"}) {
		t.Errorf("heard %v", heard)
	}
}

// However many go, few are remembered: the newest.
func TestMissingIsBounded(t *testing.T) {
	v := still()
	for i := range 10 * maxMissing {
		v.put(&pb.Member{Id: fmt.Sprintf("gate-%d", i), Service: "gate"})
		v.pass(TTL)
	}
	if n := len(v.missing); n != maxMissing || v.missing[n-1].id != fmt.Sprintf("gate-%d", 10*maxMissing-1) {
		t.Errorf("%d are remembered, the newest is %v", n, v.missing[n-1])
	}
}
