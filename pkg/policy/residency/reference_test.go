package residency

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plain is a machine for hosts that evict at once, of units of any bytes, which looks at
// everything anew after each event.
type plain struct {
	budget int64
	loads  int
	newest bool
	clock  int
	units  []*plainUnit // but the cold ones
	told   []string
}

type plainUnit struct {
	n, refs, wanted, used int
	bytes                 int64
	urgency               Urgency
	priority              int64
	at                    string // queued, loading, standing, held
	reserved, cancelled   bool
}

func (p *plain) say(kind Kind, n int) { p.told = append(p.told, fmt.Sprintf("%v %d", kind, n)) }

func (p *plain) find(n int) *plainUnit {
	if i := slices.IndexFunc(p.units, func(one *plainUnit) bool { return one.n == n }); i >= 0 {
		return p.units[i]
	}
	return nil
}

func (p *plain) drop(n int) {
	p.units = slices.DeleteFunc(p.units, func(one *plainUnit) bool { return one.n == n })
}

func (p *plain) those(at string) (found []*plainUnit) {
	for _, one := range p.units {
		if one.at == at {
			found = append(found, one)
		}
	}
	return found
}

// room makes room for a unit, if that can be done.
func (p *plain) room(one *plainUnit) bool {
	var idle []*plainUnit
	used, spare := int64(0), int64(0)
	for _, other := range p.units {
		if other.reserved {
			used += other.bytes
		}
		if other.at == "held" && other.refs == 0 {
			idle = append(idle, other)
			spare += other.bytes
		}
	}
	if p.budget > 0 && used-spare+one.bytes > p.budget {
		p.say(Refuse, one.n)
		p.drop(one.n)
		return false
	}
	slices.SortFunc(idle, func(a, b *plainUnit) int { return a.used - b.used })
	for _, other := range idle {
		if p.budget == 0 || used+one.bytes <= p.budget {
			break
		}
		used -= other.bytes
		p.say(Evict, other.n)
		p.drop(other.n)
	}
	one.reserved = true
	return true
}

func (p *plain) want(n int, bytes int64, urgency Urgency, priority int64) {
	p.clock++
	one := p.find(n)
	if one == nil {
		one = &plainUnit{n: n, bytes: bytes, urgency: urgency, priority: priority, wanted: p.clock, at: "queued"}
		p.units = append(p.units, one)
	}
	one.refs++
	if counts := cmp.Or(cmp.Compare(urgency, one.urgency), cmp.Compare(priority, one.priority)) >= 0; counts && one.at != "held" {
		one.urgency, one.priority = urgency, priority
		if one.at != "loading" {
			one.wanted = p.clock
		}
	}
	if one.at == "held" {
		one.urgency = max(one.urgency, urgency)
		p.say(Ready, n)
	} else if !one.reserved && one.urgency > Hinted {
		p.room(one)
	}
	p.begin()
}

func (p *plain) release(n int) {
	one := p.find(n)
	if one == nil || one.refs == 0 {
		return
	}
	if one.refs--; one.refs > 0 {
		return
	}
	switch one.at {
	case "queued":
		p.drop(n)
	case "held":
		p.clock++
		one.used = p.clock
	default:
		if one.at = "loading"; !one.cancelled {
			p.say(Cancel, n)
		}
		// one that stands still takes no lane though it is loading now
		one.cancelled = true
	}
	p.begin()
}

// outrun reports whether a more urgent load runs.
func (p *plain) outrun(one *plainUnit) bool {
	return slices.ContainsFunc(p.those("loading"), func(other *plainUnit) bool { return !other.cancelled && other.urgency > one.urgency })
}

func (p *plain) next() *plainUnit {
	waits := append(p.those("queued"), p.those("standing")...)
	if len(waits) == 0 {
		return nil
	}
	return slices.MinFunc(waits, func(a, b *plainUnit) int {
		order := cmp.Compare(a.wanted, b.wanted)
		if p.newest {
			order = -order
		}
		return cmp.Or(cmp.Compare(b.urgency, a.urgency), strings.Compare(b.at, a.at), cmp.Compare(b.priority, a.priority), order)
	})
}

func (p *plain) begin() {
	for one := p.next(); one != nil && len(p.those("loading")) < p.loads && !p.outrun(one); one = p.next() {
		if !one.reserved && !p.room(one) {
			continue
		}
		kind := Load
		if one.at == "standing" {
			kind = Resume
		}
		one.at, one.cancelled = "loading", false
		p.say(kind, one.n)
	}
}

func (p *plain) piece(n int) {
	one, next := p.find(n), p.next()
	if one == nil || one.at != "loading" || one.cancelled || !p.outrun(one) && (next == nil || next.urgency <= one.urgency) {
		return
	}
	one.at = "standing"
	p.begin()
}

func (p *plain) end(n int, well bool) {
	one := p.find(n)
	switch {
	case one == nil || one.at != "loading":
		return
	case !well && one.cancelled && one.refs > 0:
		p.clock++
		one.wanted, one.at, one.cancelled = p.clock, "queued", false
	case !well:
		p.drop(n)
	case one.refs > 0:
		one.at = "held"
		p.say(Ready, n)
	default:
		p.clock++
		one.at, one.used = "held", p.clock
	}
	p.begin()
}

// The machine does what a plain one does, event by event. Loads that stand still are not
// cancelled here: they take a lane in one of the two.
func TestLikePlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &plain{budget: rapid.Int64Range(0, 12).Draw(t, "budget"), loads: rapid.IntRange(1, 3).Draw(t, "loads"), newest: rapid.Bool().Draw(t, "newest")}
		s := Settings{Budget: p.budget, Loads: p.loads}
		if p.newest {
			s.Order = Newest{}
		}
		m := New(s)
		g := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) // evenly, which rapid's ranges are not
		for range 150 {
			n := g.IntN(units)
			bytes, one := int64(1+n%4), p.find(n)
			switch g.IntN(7) {
			case 0, 1:
				urgency, priority := Urgency(g.IntN(3)), g.Int64N(3)
				m.Want(Want{Unit: u(n), Bytes: bytes, Urgency: urgency, Priority: priority})
				p.want(n, bytes, urgency, priority)
			case 2, 3:
				if one == nil || one.at != "standing" {
					m.Release(u(n))
					p.release(n)
				}
			case 4:
				if one != nil && one.at == "loading" {
					m.Loaded(u(n))
					p.end(n, true)
				}
			case 5:
				if one != nil && one.at == "loading" {
					if one.cancelled {
						m.Stopped(u(n))
					} else {
						m.Failed(u(n))
					}
					p.end(n, false)
				}
			case 6:
				m.Piece(u(n))
				p.piece(n)
			}
			var got []string
			for a, ok := m.Next(); ok; a, ok = m.Next() {
				if a.Kind == Evict {
					m.Evicted(a.Unit)
				}
				got = append(got, fmt.Sprintf("%v %d", a.Kind, a.Unit.Index))
			}
			slices.Sort(got) // a plain host evicts before the machine goes on
			slices.Sort(p.told)
			if !slices.Equal(got, p.told) {
				t.Fatalf("%v, want %v", got, p.told)
			}
			p.told = nil
		}
	})
}
