package copies

import (
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

const (
	// atOnce is the part of the time of a load that it must save a layer at once: the
	// replica stays, and saves more.
	atOnce = 0.05
	// The same of moeless+lean as long as nothing waits; the seconds for which it then keeps
	// unneeded replicas; and what the square of world.World's Queued counts: by so much less has
	// a load to save, and so many seconds longer a copy stays. What a step takes less counts once
	// for each request behind it, and a queue grows with the square of its load.
	calm    = 0.05
	leanest = 0.4
	queued  = 100
)

// Policies are moeless+ and moeless+lean.
func Policies() []registry.Policy {
	return []registry.Policy{plus(), lean()}
}

func gain(by float64) registry.Setting {
	return registry.Setting{Name: "gain", Kind: registry.Ratio, Default: by, Min: 0, Max: 100, Help: "part of a load's time that a replica has to save a layer at once"}
}

func plus() registry.Policy {
	return registry.Policy{
		Name: "moeless+", About: "experts of the busiest host copied where that ends a layer sooner than their loads cost, by what accesses take",
		Uses: registry.Live | registry.Simulated, ToZero: true, Sees: registry.Ahead, Corrects: true, Divides: true,
		Settings: []registry.Setting{gain(atOnce)},
		Make:     func(p *registry.Policy, v registry.Values) { p.Decide = form{gain: v["gain"]}.decide },
	}
}

func lean() registry.Policy {
	return registry.Policy{
		Name: "moeless+lean", About: "the same; unneeded replicas are let go soon, but the more of the time requests wait, the more is loaded and the longer it stays",
		Uses: registry.Live | registry.Simulated, ToZero: true, Sees: registry.Ahead, Corrects: true, Divides: true, Lingers: true,
		Settings: []registry.Setting{
			gain(calm),
			{Name: "keep", Kind: registry.Seconds, Default: leanest, Min: 0.001, Max: 3600, Help: "for how long copies stay without rows as long as no request waits"},
			{Name: "queue", Kind: registry.Ratio, Default: queued, Min: 0, Max: 1000, Help: "what the square of the part of time counts in which requests wait: by so much less has a load to save, so many seconds longer copies stay"},
		},
		Make: func(p *registry.Policy, v registry.Values) {
			p.Decide, p.KeepAlive = form{gain: v["gain"], keep: v["keep"], queue: v["queue"]}.decide, v["keep"]
		},
	}
}

// form is how much has to be saved, and for how long copies are kept; keep 0 is as long as
// all else.
type form struct{ gain, keep, queue float64 }

// decide says what to load beside what is warm.
func (f form) decide(w *world.World) (d world.Decision, err error) {
	press, keep := f.queue*w.Queued*w.Queued, f.keep
	if keep > 0 {
		keep += press
	}
	for _, at := range w.Due {
		l := &w.Layers[at]
		s := Settings{Device: w.Takes, Gain: f.gain / (1 + press) * load(w, l), Spare: l.Spare}
		replicas, err := Decide(State{Experts: asked(l), Room: room(w, l), Held: l.Held}, s)
		if err != nil {
			return world.Decision{}, err
		}
		d.Layers = append(d.Layers, world.Placement{Layer: at, Replicas: replicas, Keep: keep, Least: s.Gain})
	}
	return d, nil
}

// load are the seconds of a load by the first host's link: all are taken to be alike.
func load(w *world.World, l *world.Layer) float64 {
	if len(w.Hosts) == 0 {
		return 0
	}
	return w.Hosts[0].Tiers[0].Seconds(float64(l.Largest()))
}

// asked are a layer's experts with the rows that are known to come.
func asked(l *world.Layer) []Expert {
	rows, experts := l.Rows(), make([]Expert, len(l.Units))
	for e, u := range l.Units {
		experts[e].Bytes = u.Bytes
		if rows != nil {
			experts[e].Load = rows[e]
		}
	}
	return experts
}

// room is the layer's on each host; a host that is gone has none.
func room(w *world.World, l *world.Layer) []uint64 {
	bytes := make([]uint64, len(w.Hosts))
	for h := range min(len(bytes), len(l.Room)) {
		if w.Hosts[h].Health != world.Gone {
			bytes[h] = l.Room[h]
		}
	}
	return bytes
}
