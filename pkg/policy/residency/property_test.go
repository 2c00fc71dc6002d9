package residency

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// player is a host that does anything in any order, and what it knows of a machine by
// what it has told it and was told.
type player struct {
	m       *Machine
	s       Settings
	refs    map[int]int // references
	bytes   map[int]int64
	waits   map[int]bool    // some wait for Ready or Refuse
	loads   map[int]Urgency // loads that run; the urgency is the highest that was told
	stands  map[int]bool
	ending  map[int]bool // cancelled
	held    map[int]bool
	leaving map[int]bool
	watched map[int]int64 // bytes that were set aside, as is watched
	seen    map[int]Phase
}

func newPlayer(s Settings) *player {
	p := &player{
		watched: map[int]int64{}, seen: map[int]Phase{}, s: s, refs: map[int]int{}, bytes: map[int]int64{}, waits: map[int]bool{}, loads: map[int]Urgency{}, stands: map[int]bool{},
		ending: map[int]bool{}, held: map[int]bool{}, leaving: map[int]bool{},
	}
	s.Watch = func(u unit.Unit, bytes int64, is Phase) {
		if p.seen[u.Index] = is; is == Cold {
			bytes = 0
		}
		p.watched[u.Index] = bytes
	}
	p.m = New(s)
	return p
}

// units of the tests, of 1 to 4 bytes.
const units = 6

func (p *player) want(n int, urgency Urgency, priority int64) {
	size := int64(1 + n%4)
	p.m.Want(Want{Unit: u(n), Bytes: size, Urgency: urgency, Priority: priority})
	p.refs[n]++
	p.bytes[n], p.waits[n] = size, true
	if had, runs := p.loads[n]; runs {
		p.loads[n] = max(had, urgency)
	}
}

// play does one thing, of those that a host may do now.
func (p *player) play(what, which byte) {
	n, urgency := int(which)%units, Urgency(which/units%3)
	_, runs := p.loads[n]
	switch what % 10 {
	case 0, 1:
		p.want(n, urgency, int64(which>>6))
	case 2:
		p.m.Release(u(n))
		p.refs[n] = max(0, p.refs[n]-1)
	case 3:
		if runs {
			p.loaded(n)
		}
	case 4:
		if runs && !p.ending[n] {
			p.failed(n)
		}
	case 5:
		if p.ending[n] {
			delete(p.loads, n)
			delete(p.stands, n)
			delete(p.ending, n)
			p.m.Stopped(u(n))
		}
	case 6:
		if runs && !p.stands[n] && !p.m.Piece(u(n)) {
			p.stands[n] = true
		}
	case 7:
		p.m.Evict(u(n))
	case 8:
		if p.leaving[n] {
			p.leave(n, which >= 128)
		}
	case 9:
		p.m.Touch(u(n))
	}
}

func (p *player) loaded(n int) {
	delete(p.loads, n)
	delete(p.stands, n)
	delete(p.ending, n)
	p.held[n] = true
	p.m.Loaded(u(n))
}

func (p *player) failed(n int) {
	delete(p.loads, n)
	delete(p.stands, n)
	p.refs[n], p.waits[n] = 0, false
	p.m.Failed(u(n))
}

func (p *player) leave(n int, inUse bool) {
	delete(p.leaving, n)
	if inUse {
		p.m.InUse(u(n))
		return
	}
	delete(p.held, n)
	p.m.Evicted(u(n))
}

// do takes the machine's actions, and says what is wrong with one.
func (p *player) do() error {
	for a, ok := p.m.Next(); ok; a, ok = p.m.Next() {
		n := a.Unit.Index
		_, runs := p.loads[n]
		bad := false
		switch a.Kind {
		case Load:
			bad = runs || p.held[n] || p.refs[n] == 0
			p.loads[n] = p.m.entries[a.Unit].Urgency
		case Resume:
			bad = !p.stands[n] || p.ending[n]
			delete(p.stands, n)
		case Cancel:
			bad = !runs || p.ending[n] || p.refs[n] > 0
			p.ending[n] = true
		case Evict:
			bad = !p.held[n] || p.refs[n] > 0 || p.leaving[n]
			p.leaving[n] = true
		case Ready:
			bad = !p.held[n] || p.refs[n] == 0
			p.waits[n] = false
		case Refuse:
			bad = p.refs[n] == 0 || a.Bytes <= a.Room
			p.refs[n], p.waits[n] = 0, false
		}
		if bad {
			return fmt.Errorf("%v of %d, of which are %d references, running %v, held %v", a.Kind, n, p.refs[n], runs, p.held[n])
		}
	}
	return p.check()
}

// check says what must never be.
func (p *player) check() error {
	var held, most, watched int64
	running, top := 0, Hinted
	for n := range units {
		if watched += p.watched[n]; p.held[n] != (p.seen[n] == Held) {
			return fmt.Errorf("unit %d is watched as %v, held %v", n, p.seen[n], p.held[n])
		}
		most = max(most, int64(p.m.References(u(n))-p.refs[n]))
		if urgency, runs := p.loads[n]; runs {
			if held += p.bytes[n]; !p.stands[n] {
				running++
			}
			if !p.ending[n] && !p.stands[n] {
				top = max(top, urgency)
			}
		}
		if p.held[n] {
			held += p.bytes[n]
		}
	}
	switch used := p.m.Used(); {
	case p.s.Budget > 0 && used > p.s.Budget || used < held:
		return fmt.Errorf("%d bytes are used, %d held or loaded, the budget is %d", used, held, p.s.Budget)
	case used != watched:
		return fmt.Errorf("%d bytes are used, %d are watched", used, watched)
	case running > p.s.Loads:
		return fmt.Errorf("%d loads run", running)
	case most > 0:
		return fmt.Errorf("the machine counts %d references too many", most)
	}
	return p.passed(top)
}

// passed reports whether a load that waits for its lane has one as soon as there is one, and
// whether a less urgent one goes on beside it after its piece.
func (p *player) passed(top Urgency) error {
	if next := p.m.queue.first(); next != nil && len(p.m.running) < p.s.Loads && next.Urgency >= top && p.m.claims() == 0 {
		return fmt.Errorf("%v waits though there is a lane", next.Unit)
	}
	return nil
}

// settle lets everything come to its end: nobody waits any more, and nothing is taken
// when all is given back.
func (p *player) settle() error {
	for range 20 * units {
		for n := range units {
			if p.leaving[n] {
				p.leave(n, false)
			} else if _, runs := p.loads[n]; p.ending[n] || runs && !p.stands[n] {
				p.loaded(n)
			}
			if err := p.do(); err != nil {
				return err
			}
		}
	}
	for n := range units {
		if p.waits[n] && p.refs[n] > 0 || len(p.loads) > 0 {
			return fmt.Errorf("unit %d has no end: %v, %d references, loads %v", n, p.m.Phase(u(n)), p.refs[n], p.loads)
		}
	}
	for n := range units {
		for range p.refs[n] {
			p.m.Release(u(n))
		}
		if p.m.Evict(u(n)) {
			p.m.Evicted(u(n))
		}
	}
	if p.m.Used() != 0 || len(p.m.entries) > 0 {
		return fmt.Errorf("%d bytes and %d units are left", p.m.Used(), len(p.m.entries))
	}
	return nil
}

func playAll(s Settings, events []byte) error {
	p := newPlayer(s)
	for i := 0; i+1 < len(events); i += 2 {
		p.play(events[i], events[i+1])
		if err := p.do(); err != nil {
			return fmt.Errorf("event %d: %w", i/2, err)
		}
	}
	return p.settle()
}

// random is evenly spread, which rapid's bytes are not.
func random(seed uint64, n int) []byte {
	g, out := rand.New(rand.NewPCG(seed, 0)), make([]byte, n)
	for i := range out {
		out[i] = byte(g.Uint32())
	}
	return out
}

func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{
			Budget: rapid.Int64Range(0, 12).Draw(t, "budget"), Loads: rapid.IntRange(1, 3).Draw(t, "loads"),
			Order: rapid.SampledFrom([]Order{LRU{}, Newest{}}).Draw(t, "order"),
		}
		if err := playAll(s, random(rapid.Uint64().Draw(t, "seed"), 400)); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzAnyOrder(f *testing.F) {
	f.Add(uint8(7), uint8(2), []byte{0, 1, 3, 1, 2, 1, 0, 2, 0, 12, 6, 2, 8, 1})
	f.Fuzz(func(t *testing.T, budget, loads uint8, events []byte) {
		if err := playAll(Settings{Budget: int64(budget % 13), Loads: 1 + int(loads%3), Order: LRU{}}, events[:min(len(events), 1000)]); err != nil {
			t.Error(err)
		}
	})
}

// A demand stands in front of a prefetch at the end of its piece, whatever else has
// happened.
func TestMissPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlayer(Settings{Loads: rapid.IntRange(1, 3).Draw(t, "loads")})
		before := random(rapid.Uint64().Draw(t, "seed"), 120)
		for i := 0; i < len(before); i += 2 {
			p.play(before[i], before[i+1])
			if err := p.do(); err != nil {
				t.Fatal(err)
			}
		}
		for n := range units { // rows come for a unit that is not there
			if p.m.Phase(u(n)) == Cold {
				p.want(n, Demanded, 0)
			}
		}
		if err := p.do(); err != nil {
			t.Fatal(err)
		}
		waits := p.m.queue.len() > 0 && p.m.queue.first().Urgency == Demanded
		for _, e := range slices.Clone(p.m.running) {
			if goesOn := p.m.Piece(e.Unit); waits && goesOn && e.Urgency < Demanded && !e.cancelled {
				t.Fatalf("%v goes on", e.Unit)
			}
		}
	})
}

// One layer after the other of a large model, with room for a third of its units: each
// step is a miss, an eviction and a load.
func BenchmarkMiss(b *testing.B) {
	const layers, experts = 61, 256
	m := New(Settings{Budget: layers * experts / 3})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := unit.Expert(i/experts%layers, i%experts)
		m.Want(Want{Unit: at, Bytes: 1, Urgency: Demanded})
		for a, ok := m.Next(); ok; a, ok = m.Next() {
			switch a.Kind {
			case Load:
				m.Loaded(a.Unit)
			case Evict:
				m.Evicted(a.Unit)
			}
		}
		m.Release(at)
	}
}

// All of a large model's units are held, and one is used after the other.
func BenchmarkHit(b *testing.B) {
	const layers, experts = 61, 256
	m := New(Settings{})
	for i := range layers * experts {
		at := unit.Expert(i/experts, i%experts)
		m.Want(Want{Unit: at, Bytes: 1})
		m.Loaded(at)
		m.Release(at)
	}
	for _, ok := m.Next(); ok; _, ok = m.Next() {
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := unit.Expert(i/experts%layers, i%experts)
		m.Want(Want{Unit: at, Bytes: 1, Urgency: Demanded})
		m.Next()
		m.Next()
		m.Release(at)
	}
}
