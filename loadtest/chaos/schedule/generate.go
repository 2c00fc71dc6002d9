package schedule

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Settings are what a schedule is made from: the same ones make the same.
type Settings struct {
	Seed uint64
	// Length is when the last fault begins at the latest; Every is the mean pause
	// between two beginnings.
	Length, Every time.Duration
	// Replicas are how many there are of each service, and of the servers.
	Replicas map[string]int
	// Kinds are those that happen; none are all.
	Kinds []Kind
	// Leader is the pause between two kills of the leading server, beside all other
	// faults; 0: there are none beside them.
	Leader time.Duration
}

// span is how long a kind's faults take.
type span struct{ least, most time.Duration }

// spans are below the half minute after which a layer without an answer ends
// its requests, so that every request has to get its whole answer.
var spans = map[Kind]span{
	Kill:      {0, 3 * time.Second},
	Hang:      {500 * time.Millisecond, 6 * time.Second},
	Drain:     {0, 0},
	Storm:     {0, 2 * time.Second},
	Vanish:    {500 * time.Millisecond, 5 * time.Second},
	Latency:   {time.Second, 5 * time.Second},
	Bandwidth: {time.Second, 5 * time.Second},
	Reset:     {200 * time.Millisecond, 2 * time.Second},
	Partition: {500 * time.Millisecond, 6 * time.Second},
	Leader:    {leaderAway, leaderAway},
	Disk:      {500 * time.Millisecond, 2 * time.Second},
	Memory:    {time.Second, 5 * time.Second},
	Skew:      {2 * time.Second, 10 * time.Second},
}

// serverSpan is shorter: without the only server nothing goes on.
var serverSpan = span{0, 2 * time.Second}

const (
	// leaderAway is how long a leading server is away.
	leaderAway = 2 * time.Second
	// settle is when a replica is back, after its fault.
	settle = 2 * time.Second
	// tries at finding a replica that is whole.
	tries      = 8
	resolution = time.Millisecond
)

type generator struct {
	Settings
	rng  *rand.Rand
	busy map[Target]time.Duration // until when
	next time.Duration            // kill of the leading server, of those with a pause of their own
}

func newGenerator(s Settings) *generator {
	if len(s.Kinds) == 0 {
		s.Kinds = Kinds
	}
	return &generator{Settings: s, rng: rand.New(rand.NewPCG(s.Seed, s.Seed)), busy: map[Target]time.Duration{}, next: s.Leader}
}

// Random is faults of all kinds, each at any time, and kills of the leading server
// at fixed ones.
func Random(s Settings) (out Schedule) {
	g := newGenerator(s)
	for at := g.pause(); at < s.Length; at += g.pause() {
		out = append(out, g.leaders(at)...)
		if f, ok := g.fault(at); ok {
			out = append(out, f)
		}
	}
	return append(out, g.leaders(s.Length)...)
}

// leaders are the kills of the leading server that are due before a moment.
func (g *generator) leaders(before time.Duration) (out Schedule) {
	for ; g.Leader > 0 && g.next < before; g.next += g.Leader {
		f := Fault{At: g.next, For: leaderAway, Kind: Leader, Target: Target{Service: Server, Replica: All}}
		g.occupy(f)
		out = append(out, f)
	}
	return out
}

// pause is exponential, so that faults come in bunches, too; the longest are cut.
func (g *generator) pause() time.Duration {
	const longest = 4
	p := time.Duration(min(g.rng.ExpFloat64(), longest) * float64(g.Every))
	return max(p.Round(resolution), resolution)
}

// fault is one at a target that is whole by then, if such a one is found.
func (g *generator) fault(at time.Duration) (f Fault, ok bool) {
	for range tries {
		k := g.Kinds[g.rng.IntN(len(g.Kinds))]
		targets := g.targets(k)
		if len(targets) == 0 {
			continue
		}
		f = g.at(at, k, targets[g.rng.IntN(len(targets))])
		if g.take(f) {
			return f, true
		}
	}
	return f, false
}

func (g *generator) at(at time.Duration, k Kind, t Target) Fault {
	s := spans[k]
	if t.Service == Server && s.most > serverSpan.most {
		s = serverSpan
	}
	length := s.least + time.Duration(g.rng.Float64()*float64(s.most-s.least))
	return Fault{At: at, For: length.Round(resolution), Kind: k, Target: t}
}

// take reports whether a fault's targets are whole, and has them busy then.
func (g *generator) take(f Fault) bool {
	if slices.ContainsFunc(g.hit(f.Target), func(t Target) bool { return f.At < g.busy[t] || g.due(t, f.End()+settle) }) {
		return false
	}
	g.occupy(f)
	return true
}

func (g *generator) occupy(f Fault) {
	for _, t := range g.hit(f.Target) {
		g.busy[t] = f.End() + settle
	}
}

// due reports whether a server may be the leading one that is to be killed before it is
// back. Without two of them nothing goes on, whoever leads.
func (g *generator) due(t Target, back time.Duration) bool {
	return g.Leader > 0 && t.Service == Server && back > g.next
}

// hit are the single replicas of a target.
func (g *generator) hit(t Target) (out []Target) {
	if t.Replica != All {
		return []Target{t}
	}
	for _, service := range append([]string{Server}, Services...) {
		if t.Service != service && (t.Service != Any || service == Server) {
			continue
		}
		for i := range g.Replicas[service] {
			out = append(out, Target{Service: service, Replica: i})
		}
	}
	return out
}

// targets are those of a kind. Each service is there once, so that none is hit
// more often for having more replicas; which replica is left to chance. A lone server
// leads no other.
func (g *generator) targets(k Kind) (out []Target) {
	if k == Leader && g.Replicas[Server] < 2 {
		return nil
	}
	for _, service := range append([]string{Any, Server}, Services...) {
		t := Target{Service: service, Replica: All}
		if !k.namesNone() && g.Replicas[service] > 0 {
			t.Replica = g.rng.IntN(g.Replicas[service])
		}
		if k.hits(t) {
			out = append(out, t)
		}
	}
	return out
}

// Each is every kind at every service it can hit, again and again until the
// length is used up, with pauses of Every after each end: what a fault costs
// can then be told from what others cost.
func Each(s Settings) (out Schedule) {
	g := newGenerator(s)
	for at := s.Every; ; {
		before := len(out)
		for _, k := range g.Kinds {
			for _, t := range g.targets(k) {
				if at >= s.Length {
					return out
				}
				f := g.at(at, k, t)
				out = append(out, f)
				at = f.End() + s.Every
			}
		}
		if len(out) == before {
			return out // there is nobody to hit
		}
	}
}

// Rolling is a restart of every replica and every server, one after the other.
func Rolling(s Settings) (out Schedule) {
	at := s.Every
	for _, service := range append(slices.Clone(Services), Server) {
		for i := range s.Replicas[service] {
			out = append(out, Fault{At: at, Kind: Drain, Target: Target{Service: service, Replica: i}})
			at += s.Every
		}
	}
	return out
}
