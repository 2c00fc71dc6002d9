package arena

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/choices"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Points are at which loads requests are served (loadtest/sim/requests).
type Points struct {
	// Of are the rates of requests, as parts of static's capacity, with the routing that is
	// fitted and with even routing; 0 is the trace's own rate.
	Of []float64
	// Slice is how much of the trace is served, at each point in another time.
	Slice time.Duration
	// Idle is the length of the pauses of a further run at the first point, one in every one
	// and a half of it; 0 is no such run.
	Idle time.Duration
	SLO  requests.SLO
	// MaxRows are those of a batch.
	MaxRows int
	// Fail is when the first host of each run goes for good, with all that it holds; 0 is never.
	// The capacity is that without it.
	Fail time.Duration
}

// notice is for how many seconds rows wait for a host that is gone, as attention does before
// it sends them elsewhere (services/attention/layer, minPatience).
const notice = 0.8

// ours is the policy that the claims of operating points are of.
const ours = "moeless+lean"

// against are what it is compared with.
var against = []string{"static", "eplb+", "eplb-full", "eplb-full+"}

const mostPoint = 100

// Check says what is wrong with the points.
func (p Points) Check() error {
	if len(p.Of) == 0 {
		return errors.New("no load is named; name parts of static's capacity, such as 0.3,0.9, or 0 for the trace as it is")
	}
	for i, of := range p.Of {
		if !(of >= 0 && of <= mostPoint) {
			return fmt.Errorf("load %v is no part of a capacity; it must be 0, which is the trace as it is, to %v", of, mostPoint)
		}
		for _, other := range p.Of[:i] {
			if other == of {
				return fmt.Errorf("load %v is named twice", of)
			}
		}
	}
	if p.Slice <= 0 || p.Idle < 0 || p.Fail < 0 {
		return fmt.Errorf("a slice of %v with pauses of %v and a host that goes after %v is asked for; the slice must be above 0, the others 0 or above", p.Slice, p.Idle, p.Fail)
	}
	return p.settings(routing.Shape{Experts: 1, TopK: 1}).Check()
}

func (p Points) settings(of routing.Shape) requests.Settings {
	set := requests.Defaults(of)
	set.SLO, set.Batching.MaxRows, set.Batching.MinRows = p.SLO, p.MaxRows, p.MaxRows
	return set
}

// setting is what policies are compared on.
type setting struct {
	Shape   string  `json:"shape"`
	Routing string  `json:"routing"`
	Idle    bool    `json:"idle"`
	Point   float64 `json:"load"`
}

// Serve serves requests at the operating points under all policies.
func Serve(ctx context.Context, s Settings, p Points) (*Operating, error) {
	if err := errors.Join(s.Check(), p.Check()); err != nil {
		return nil, err
	}
	s.Seeds = max(1, s.Seeds)
	r := &Operating{Trace: s.TraceName, Points: p, Hosts: s.Hosts, Seed: s.Seed, Seeds: s.Seeds, Capacities: map[string]float64{}}
	for _, name := range s.Shapes {
		m, err := sim.Open(name)
		if err != nil {
			return nil, err
		}
		for _, k := range []struct {
			name   string
			params choices.Params
		}{{routingFitted, s.Routing}, {routingEven, choices.Even()}} {
			served := server{Settings: s, Points: p, m: m, kind: k.name, params: k.params}
			lines, err := served.all(ctx, r)
			if err != nil {
				return nil, fmt.Errorf("%s, %s routing: %w", name, k.name, err)
			}
			r.Lines = append(r.Lines, lines...)
		}
	}
	r.conclude()
	return r, nil
}

// server serves one shape with one routing.
type server struct {
	Settings
	Points
	m      sim.Model
	kind   string
	params choices.Params
	tapes  []*requests.Tape // of each seed
	rs     []trace.Request
	before []trace.Request
}

// cut takes the part of the trace that has most tokens, and the ten minutes before it: the
// part itself where there are none.
func (y *server) cut() {
	const before = 10 * time.Minute
	y.rs = trace.Peak(y.Trace, y.Points.Slice)
	at := trace.PeakAt(y.Trace, y.Points.Slice)
	if y.before = trace.Slice(y.Trace, max(0, at-before), at); len(y.before) == 0 {
		y.before = y.rs
	}
}

// prepare takes requests, and writes the tapes of all seeds.
func (y *server) prepare() error {
	y.cut()
	for i := range y.Seeds {
		g, err := choices.New(y.m.Shape, y.params, y.Domains, y.Seed+uint64(i))
		if err != nil {
			return err
		}
		replay := y.replay()
		replay.Seed += uint64(i)
		y.tapes = append(y.tapes, requests.NewTape(g, replay))
	}
	return nil
}

func (y *server) all(ctx context.Context, r *Operating) ([]Served, error) {
	if err := y.prepare(); err != nil {
		return nil, err
	}
	if slices.Equal(y.Of, []float64{0}) { // no capacity is asked for
		return y.points(ctx, 1)
	}
	capacity, err := y.capacity(ctx)
	if err != nil {
		return nil, err
	}
	span := min(y.Points.Slice, y.rs[len(y.rs)-1].At+time.Second)
	r.Capacities[y.m.Name+", "+y.kind+" routing"] = capacity * float64(len(y.rs)) / span.Seconds()
	return y.points(ctx, capacity)
}

// The bounds and steps of the search for a capacity.
const (
	leastRate, greatestRate = 1.0 / 64, 64
	capacitySteps           = 9
)

// capacity is the largest rate, as a multiple of the trace's, at which static keeps the SLO
// of the goal's share of requests: what DistServe (Zhong et al., OSDI 2024) calls goodput. It
// is told by bisection, with the first seed, to a hundredth. A rate at which a queue grows
// misses it as soon as the slice is a few times as long as the SLO; and unlike the rate at
// which a queue begins to grow it does not depend on where the slice ends.
func (y *server) capacity(ctx context.Context) (float64, error) {
	low, high := 0.0, 0.0
	keeps := func(rate float64) (bool, error) {
		l, err := y.serve(ctx, setting{}, rate, 0, static())
		return l.Good >= requests.Goal, err
	}
	for rate := 1.0; low == 0 || high == 0; { // doubled or halved, until it lies between
		ok, err := keeps(rate)
		switch {
		case err != nil:
			return 0, err
		case ok && rate >= greatestRate, !ok && rate <= leastRate:
			return 0, fmt.Errorf("static's capacity is beyond %v to %v times the trace's rate; give another --slo-ttft or --slo-tpot", leastRate, greatestRate)
		case ok:
			low, rate = rate, 2*rate
		default:
			high, rate = rate, rate/2
		}
	}
	for range capacitySteps {
		middle := (low + high) / 2
		ok, err := keeps(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
		y.Progress("%s: static keeps the SLO up to %.3f times the trace's rate…", y.m.Name, low)
	}
	return low, nil
}

func static() sim.Policy { return sim.Policies()[0] }

// points runs all policies at all points with all seeds.
func (y *server) points(ctx context.Context, capacity float64) ([]Served, error) {
	type job struct {
		setting
		seed   int
		policy sim.Policy
	}
	var jobs []job
	for seed := range y.Seeds {
		for _, p := range y.Suite.Policies() {
			for _, of := range y.Of {
				jobs = append(jobs, job{setting{y.m.Name, y.kind, false, of}, seed, p})
			}
			if y.kind == routingFitted && y.pauses(capacity*y.Of[0]) {
				jobs = append(jobs, job{setting{y.m.Name, y.kind, true, y.Of[0]}, seed, p})
			}
		}
	}
	lines := make([]Served, len(jobs))
	err := y.inParallel(ctx, len(jobs), y.m.Name+", "+y.kind+" routing", func(ctx context.Context, i int) (err error) {
		j := jobs[i]
		rate := capacity * j.Point
		if j.Point == 0 {
			rate = 1
		}
		lines[i], err = y.serve(ctx, j.setting, rate, j.seed, j.policy)
		return err
	})
	return lines, err
}

// pauses reports whether requests at a rate go on for so long that a pause is among them.
func (y *server) pauses(rate float64) bool {
	if y.Of[0] == 0 {
		rate = 1
	}
	return y.Idle > 0 && y.rs[len(y.rs)-1].At.Seconds()/rate >= (y.Idle/2).Seconds()
}

// serve runs one policy.
func (y *server) serve(ctx context.Context, at setting, rate float64, seed int, p sim.Policy) (Served, error) {
	set := y.settings(y.m.Shape)
	set.Rate = rate
	if at.Idle {
		set.Idle = requests.Idle{Every: y.Idle * 3 / 2, For: y.Idle}
	}
	s := y.of(y.m)
	s.Seed += uint64(seed)
	s.Stopped = func() bool { return ctx.Err() != nil }
	if y.Fail > 0 && at.Shape != "" {
		s.Failures, s.Notice = []sim.Failure{{At: y.Fail.Seconds()}}, notice
	}
	r, err := requests.Run(y.rs, y.before, y.tapes[seed], set, s, p)
	if errors.Is(err, sim.ErrStopped) {
		err = ctx.Err()
	}
	if err != nil {
		return Served{}, fmt.Errorf("serving under policy %s: %w", p.Name, err)
	}
	return servedOf(at, rate, y.Settings.Seed+uint64(seed), r), nil
}
