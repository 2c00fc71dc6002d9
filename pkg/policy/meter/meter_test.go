package meter

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

const gb = 1_000_000_000

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func want(t *testing.T, m *Meter, now, loading, kept, serving, taken float64) {
	t.Helper()
	s := m.Read(now)
	if !near(s.Loading, loading) || !near(s.Kept, kept) || !near(s.Serving, serving) || !near(s.Taken, taken) {
		t.Errorf("at %v: loading %v, kept %v, serving %v, taken %v; want %v, %v, %v, %v", now, s.Loading, s.Kept, s.Serving, s.Taken, loading, kept, serving, taken)
	}
}

// A unit of 2 GB through all of its states.
func TestStates(t *testing.T) {
	m, u := New(1), &Unit{}
	m.Take(u, 0, 2*gb, 1)
	want(t, m, 3, 4, 0, 0, 0)
	m.Hold(u, 3)
	want(t, m, 10, 4, 14, 0, 0)
	a := m.Begin(u, 10, 10) // the second before is its rows'
	if got := m.End(u, a, 10.5); !near(got, 3*gb) {
		t.Errorf("took %v", got)
	}
	want(t, m, 11, 4, 15, 1, 3)
	m.Drop(u, 12)
	want(t, m, 99, 4, 17, 1, 3)
	if s := m.Read(99); s.Loads != 1 || s.Moved != 2*gb || s.Peak != 2*gb || s.Seconds != 99 || !near(s.Mean(), 22*gb/99.) || !near(s.Idle(), 19) {
		t.Errorf("%+v", s)
	}
}

// Rows that wait for a load take all of it.
func TestWaited(t *testing.T) {
	m, u := New(1), &Unit{}
	m.Take(u, 0, gb, 10)
	m.ColdStart()
	m.Hold(u, 20)
	if got := m.End(u, m.Begin(u, 10, 20), 21); !near(got, 11*gb) {
		t.Errorf("took %v", got)
	}
	if s := m.Read(21); s.ColdStarts != 1 || !near(s.Idle(), 0) {
		t.Errorf("%+v", s)
	}
}

// Accesses at a time share what they have together.
func TestShared(t *testing.T) {
	m, u := New(1), &Unit{}
	m.Take(u, 0, gb, 0)
	m.Hold(u, 0)
	a := m.Begin(u, 0, 0)
	b := m.Begin(u, 1, 1)
	if got := m.End(u, a, 3); !near(got, 2*gb) {
		t.Errorf("the first took %v", got)
	}
	if got := m.End(u, b, 4); !near(got, 2*gb) {
		t.Errorf("the second took %v", got)
	}
	want(t, m, 4, 0, 0, 4, 4)
}

// Events that do not fit a unit, and times that are none, change nothing.
func TestMisfits(t *testing.T) {
	m, u := New(2), &Unit{}
	m.Hold(u, 1)
	m.Drop(u, 1)
	m.End(u, m.Begin(u, 1, 1), 2)
	m.Take(u, 2, gb, 0)
	want(t, m, 9, 0, 0, 0, 0)
	m.Take(u, 1, gb, 5)
	m.Take(u, 0, gb, 6)
	m.End(u, m.Begin(u, 5, 6), 7)
	m.Hold(u, math.NaN())
	a := m.Begin(u, math.Inf(1), math.Inf(-1))
	m.Drop(u, 4)
	if got := m.End(u, a, 9); got != 0 {
		t.Errorf("a unit that is gone costs %v", got)
	}
	want(t, m, 9, 0, 0, 0, 0)
	m.Take(u, 1, -5, math.NaN())
	want(t, m, 9, 0, 0, 0, 0)
}

// By groups they are what they are together.
func TestGroups(t *testing.T) {
	m, us := New(3), make([]Unit, 3)
	for i := range us {
		m.Take(&us[i], i, int64(i+1)*gb, float64(i))
	}
	m.Place(&us[0], 0, gb, 0) // it is there
	sum := 0.0
	for i := range us {
		sum += m.Group(i, 10).Held()
	}
	var there Unit
	m.Place(&there, 0, gb, 10)
	if s := m.Read(10); s.Begun != 3 || s.Loads != 0 || s.Peak != 7*gb {
		t.Errorf("%+v", s)
	}
	if !near(sum, 10+2*9+3*8) || !near(m.Read(10).Held(), sum) {
		t.Errorf("%v, %v", sum, m.Read(10))
	}
}

func TestBills(t *testing.T) {
	for _, tc := range []struct {
		name      string
		got, want float64
	}{
		{"a layer", Layer(0.5, 8*gb), 4},
		{"serverful", Serverful(Sums{Loading: 1, Kept: 2, Serving: 4}), 7},
		{"a call of two replicas", Invocation(3, gb/2, 2), 3},
		{"of none", Invocation(3, gb, -1), 0},
	} {
		if !near(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

// brute integrates tick by tick what the meter does by events.
type brute struct {
	bytes, free float64
	state       State
	users       map[int]*float64 // what each access has taken
	by          [states]float64
}

func (b *brute) tick() {
	b.by[b.state] += b.bytes
	for _, took := range b.users {
		*took += b.bytes / float64(len(b.users))
	}
}

// The sums are those of integration, and what accesses take and what is idle are together
// all that units had.
func TestAgainstIntegration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 3
		m, us, refs, now := New(n), make([]Unit, n), make([]brute, n), 0
		open, next, taken := [n]map[int]Access{}, 0, 0.0
		for i := range refs {
			refs[i].users, open[i] = map[int]*float64{}, map[int]Access{}
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			for range rapid.IntRange(0, 4).Draw(t, "ticks") {
				now++
				for i := range refs {
					refs[i].tick()
				}
			}
			i, at := rapid.IntRange(0, n-1).Draw(t, "unit"), float64(now)
			u, r := &us[i], &refs[i]
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				bytes := rapid.Int64Range(1, 5).Draw(t, "bytes") * gb
				m.Take(u, i, bytes, at)
				if r.state == gone {
					r.state, r.bytes, r.free = Loading, float64(bytes), at
				}
			case 1:
				m.Hold(u, at)
				if r.state == Loading {
					r.state = Kept
				}
			case 2:
				came := at - float64(rapid.IntRange(0, 9).Draw(t, "waited"))
				next++
				open[i][next] = m.Begin(u, came, at)
				if r.state == Kept || r.state == Serving {
					owed := 0.0
					if r.state == Kept {
						owed = r.bytes * max(0, at-max(r.free, max(0, came)-Span))
					}
					r.state, r.users[next] = Serving, &owed
				}
			case 3:
				for id, a := range open[i] {
					delete(open[i], id)
					got, want := m.End(u, a, at), 0.0
					if took := r.users[id]; took != nil {
						want = *took
						delete(r.users, id)
						if len(r.users) == 0 {
							r.state, r.free = Kept, at
						}
					}
					if !near(got, want) {
						t.Fatalf("an access took %v, want %v", got, want)
					}
					taken += got
					break
				}
			case 4:
				m.Drop(u, at)
				r.state, r.bytes = gone, 0
				clear(r.users)
			}
		}
		s, sum := m.Read(float64(now)), [states]float64{}
		for i := range refs {
			for k, v := range refs[i].by {
				sum[k] += v / gb
			}
		}
		if !near(s.Loading, sum[Loading]) || !near(s.Kept, sum[Kept]) || !near(s.Serving, sum[Serving]) || !near(s.Taken, taken/gb) {
			t.Fatalf("%+v, want %v and %v taken", s, sum, taken/gb)
		}
		if s.Taken > s.Held()*(1+1e-9)+1e-9 {
			t.Fatalf("%v of %v is taken", s.Taken, s.Held())
		}
	})
}

// Whatever times say, sums neither fall nor are less than nothing.
func TestClocksThatGoBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, u, before := New(1), &Unit{}, Sums{}
		var a Access
		for range rapid.IntRange(1, 50).Draw(t, "events") {
			at := rapid.Float64().Draw(t, "at")
			if !(math.Abs(at) < 1e9) {
				at = math.NaN()
			}
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				m.Take(u, 0, gb, at)
			case 1:
				m.Hold(u, at)
			case 2:
				a = m.Begin(u, at, at)
			case 3:
				if took := m.End(u, a, at); !(took >= 0) {
					t.Fatalf("took %v", took)
				}
			case 4:
				m.Drop(u, at)
			}
			s := m.Read(at)
			if !(s.Loading >= before.Loading && s.Kept >= before.Kept && s.Serving >= before.Serving && s.Taken >= before.Taken) {
				t.Fatalf("%+v after %+v", s, before)
			}
			before = s
		}
	})
}

// Serve is Begin and End.
func TestServe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, us := [2]*Meter{New(1), New(1)}, [2]*Unit{{}, {}}
		for i, m := range ms {
			m.Take(us[i], 0, gb, 1)
		}
		for range rapid.IntRange(1, 9).Draw(t, "accesses") {
			came, begin := rapid.Float64Range(0, 20).Draw(t, "came"), rapid.Float64Range(0, 20).Draw(t, "begin")
			end, held := rapid.Float64Range(0, 20).Draw(t, "end"), rapid.Bool().Draw(t, "held")
			for i, m := range ms {
				if held {
					m.Hold(us[i], begin)
				}
			}
			a, b := ms[0].Serve(us[0], came, begin, end), ms[1].End(us[1], ms[1].Begin(us[1], came, begin), end)
			if !near(a/gb, b/gb) {
				t.Fatalf("took %v, want %v", a, b)
			}
		}
		a, b := ms[0].Read(30), ms[1].Read(30)
		if !near(a.Loading, b.Loading) || !near(a.Kept, b.Kept) || !near(a.Serving, b.Serving) || !near(a.Taken, b.Taken) {
			t.Fatalf("%+v, want %+v", a, b)
		}
	})
}

func BenchmarkAccess(b *testing.B) {
	m, u := New(1), &Unit{}
	m.Take(u, 0, gb, 0)
	m.Hold(u, 0)
	b.ReportAllocs()
	for i := range b.N {
		now := float64(i)
		m.End(u, m.Begin(u, now, now), now+0.5)
	}
}
