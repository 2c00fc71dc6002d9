package arena

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/choices"
	"github.com/switchyard/switchyard/loadtest/sim/renting"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/streamed"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// RemoeStream has plans follow a trace of requests whose mix of texts drifts, beside plans that stay
// and MoEless (pkg/serverless/rented/streamed), in place of the suite's requests one by one.
type RemoeStream struct {
	Trace  []trace.Request
	Source string // its name
	// Thin is one in how many requests comes: a main model serves them all.
	Thin      int
	KeepAlive time.Duration // of a replica without rows
	Cycle     time.Duration // in which the mix has shifted through all domains and back
}

// What the stream's parts vary.
const (
	partStream    = "stream"
	partKeepAlive = "keep-alive" // seconds
	partDrift     = "drift"      // seconds of a cycle
	partThin      = "thin"
	partPaid      = "price" // of the GPU's memory
	partObjective = "slo"   // times MIX
)

// streamIdle are prices of memory that is kept, as parts of that of memory that computes: a platform
// that bills invocations alone, AWS Lambda's provisioned concurrency (a quarter of its price list's
// on-demand price), and pods that are held.
var streamIdle = []float64{0, 0.25, 1}

// streamEvery is how often plans are decided on: the scaler's cadence, at most.
const streamEvery = 10

// streamKnown are the trace's first seconds, which policies know.
const streamKnown = 10 * time.Minute

// moelessSizes are the MB of MoEless' functions; of these the best counts, run by run.
var moelessSizes = []float64{300, 1000}

// streamPolicies are in the order of the report, streamFew those of parts that vary something.
var (
	streamPolicies = []string{"mix", "remoe-static", "remoe-hindsight", "remoe", "priced-static", "priced-hindsight", "priced", "moeless"}
	streamFew      = []string{"mix", "remoe", "priced-static", "priced", "moeless"}
)

// RemoeStreamLine is a run of a policy.
type RemoeStreamLine struct {
	Part   string  `json:"part"`
	Value  float64 `json:"value"` // of what the part varies
	Shape  string  `json:"shape"`
	Policy string  `json:"policy"`
	Seed   uint64  `json:"seed"`
	Device string  `json:"device"`
	// Idle is the price of kept memory that ours has planned by; -1: a policy does not.
	Idle float64 `json:"planned_idle_price"`
	// Dollars of the run: the main model's, and functions' that compute, start, and are kept at the full
	// price.
	Main       float64 `json:"dollars_main"`
	Computing  float64 `json:"dollars_computing"`
	Starting   float64 `json:"dollars_starting"`
	Kept       float64 `json:"dollars_kept"`
	Requests   int     `json:"requests"`
	Rows       int     `json:"rows"`
	Good       float64 `json:"good_share"` // of requests that keep the SLO
	TTFT50     float64 `json:"ttft_ms_p50"`
	TTFT99     float64 `json:"ttft_ms_p99"`
	TPOT50     float64 `json:"tpot_ms_p50"`
	TPOT99     float64 `json:"tpot_ms_p99"`
	Unfinished int     `json:"unfinished"`
	Functions  float64 `json:"function_mb"` // of MoEless
	Containers int     `json:"containers"`
	Waits      int     `json:"cold_waits"`
	Changes    int     `json:"changes"`
	Elapsed    float64 `json:"elapsed_s"`
}

// Cost is in dollars, with memory that is kept at a part of the price.
func (l *RemoeStreamLine) Cost(idle float64) float64 {
	return l.Main + l.Computing + l.Starting + idle*l.Kept
}

// RemoeStreamChange is what plans that follow cost beside a policy's.
type RemoeStreamChange struct {
	Part    string  `json:"part"`
	Value   float64 `json:"value"`
	Shape   string  `json:"shape"`
	Policy  string  `json:"policy"`
	Against string  `json:"against"`
	Idle    float64 `json:"idle_price"`
	Seeds   int     `json:"seeds"`
	Change  float64 `json:"change"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	// Good are the shares of requests that keep the SLO, of the two.
	Good        float64 `json:"good_share"`
	GoodAgainst float64 `json:"good_share_against"`
}

// String is the comparison for people.
func (c RemoeStreamChange) String() string {
	return fmt.Sprintf("%-16s %-10s %6g, kept at %4g of the price: %-7s costs %+7.1f %% of %-16s (%+.1f to %+.1f), SLO kept by %.0f %% and %.0f %%\n",
		c.Shape, c.Part, c.Value, c.Idle, c.Policy, 100*c.Change, c.Against, 100*c.Low, 100*c.High, 100*c.Good, 100*c.GoodAgainst)
}

// String is the line for people.
func (l RemoeStreamLine) String() string {
	of := l.Policy
	if l.Idle >= 0 {
		of += fmt.Sprintf(" at %g", l.Idle)
	}
	if l.Functions > 0 {
		of += fmt.Sprintf(" (%.0f MB)", l.Functions)
	}
	return fmt.Sprintf("%-16s %-10s %6g seed %d %-24s: %d requests, $ %.4f of the main model, %.4f of functions, %.4f of starts, %.4f kept; SLO kept by %3.0f %%, TTFT p50 %.1f s, TPOT p50 %.0f ms, %d plans, %d containers\n",
		l.Shape, l.Part, l.Value, l.Seed, of, l.Requests, l.Main, l.Computing, l.Starting, l.Kept, 100*l.Good, l.TTFT50/1e3, l.TPOT50, l.Changes, l.Containers)
}

func (s *RemoeStream) check() error {
	switch {
	case s.Thin < 1 || s.Thin > 1<<20:
		return fmt.Errorf("one in %d requests comes; it must be 1 to %d", s.Thin, 1<<20)
	case s.KeepAlive <= 0 || s.Cycle <= 0:
		return fmt.Errorf("a replica without rows stays for %v, and the mix shifts in %v; both must be above 0", s.KeepAlive, s.Cycle)
	}
	return nil
}

// streamOf is one run's conditions.
type streamOf struct {
	part  string
	value float64
	RemoeStream
	times, price float64
}

// variants are the main run, and what is varied one by one.
func (s *Remoe) variants() []streamOf {
	of := func(part string, value float64, change func(*streamOf)) streamOf {
		o := streamOf{part, value, s.Stream, variedSLO, s.Prices[0]}
		change(&o)
		return o
	}
	all := []streamOf{of(partStream, 0, func(*streamOf) {})}
	if !s.Variants {
		return all
	}
	for _, v := range []float64{30, 600} {
		all = append(all, of(partKeepAlive, v, func(o *streamOf) { o.KeepAlive = time.Duration(v) * time.Second }))
	}
	for _, v := range []float64{300, 1e6} {
		all = append(all, of(partDrift, v, func(o *streamOf) { o.Cycle = time.Duration(v) * time.Second }))
	}
	all = append(all, of(partThin, 2, func(o *streamOf) { o.Thin *= 2 }))
	for _, v := range []float64{slices.Min(s.Prices), slices.Max(s.Prices)} {
		if v != s.Prices[0] {
			all = append(all, of(partPaid, v, func(o *streamOf) { o.price = v }))
		}
	}
	all = append(all, of(partObjective, 4, func(o *streamOf) { o.times = 4 }))
	return all
}

// runStreams runs all shapes and seeds.
func (s *Remoe) runStreams(ctx context.Context) (*RemoeReport, error) {
	labs, err := eachLab(ctx, s.Threads, s.Shapes, s.Seeds, s.Seed, s.Progress, s.streams)
	if err != nil {
		return nil, err
	}
	r := &RemoeReport{Seed: s.Seed, Platform: s.Platform, Source: s.Stream.Source, Streamed: slices.Concat(labs...)}
	r.StreamChanges = streamChanges(r.Streamed)
	return r, nil
}

// streams runs a shape with a seed under all policies and variants.
func (s *Remoe) streams(ctx context.Context, name string, seed uint64) (lines []RemoeStreamLine, err error) {
	for _, o := range s.variants() {
		run, err := s.stream(&o, name, seed)
		if err != nil {
			return nil, err
		}
		policies := streamPolicies
		if o.part != partStream {
			policies = streamFew
		}
		for _, policy := range policies {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			some, err := run.lines(policy)
			if err != nil {
				return nil, fmt.Errorf("%s under %s, %s %v: %w", name, policy, o.part, o.value, err)
			}
			for _, line := range some {
				line.Part, line.Value, line.Shape, line.Policy, line.Seed = o.part, o.value, name, policy, seed
				lines = append(lines, *line)
			}
		}
	}
	return lines, nil
}

// streamRun is what policies are compared on.
type streamRun struct {
	streamed.Settings
	tape           *requests.Tape
	before, coming []trace.Request
	promise        streamed.Promise
	watched        *streamed.Watched
	device         string
}

func (s *Remoe) stream(o *streamOf, name string, seed uint64) (*streamRun, error) {
	shape, err := rented.Open(name)
	if err != nil {
		return nil, err
	}
	platform, err := profiles.OpenPlatform(s.Platform)
	if err != nil {
		return nil, err
	}
	r := &streamRun{device: "simulated, A100 and " + platform.About}
	r.Seed, r.KeepAlive, r.Idle, r.Every = seed, o.KeepAlive.Seconds(), 1, streamEvery
	if r.System, err = shape.System(rented.Conditions{Platform: platform.Cost(), Ratio: o.price}); err != nil {
		return nil, err
	}
	if err := r.read(o, seed-s.Seed, s.Seeds); err != nil {
		return nil, err
	}
	g, err := choices.New(routing.Shape{Layers: shape.Layers, Experts: shape.Experts, TopK: shape.TopK}, choices.Demo(), streamDomains, seed)
	if err != nil {
		return nil, err
	}
	r.tape = requests.NewTape(g, sim.Replay{Domains: streamDomains, Cycle: o.Cycle, Seed: seed})
	if err := r.promised(o, g.Shape, shape.Context); err != nil {
		return nil, err
	}
	r.watched, err = streamed.Watch(r.coming, r.before, r.tape, r.Settings)
	return r, err
}

// streamDomains are kinds of text: as many as the recording has that routing is fitted to.
const streamDomains = 5

// read thins the trace: each seed has other ones of its requests.
func (r *streamRun) read(o *streamOf, number uint64, seeds int) error {
	first := int(number) * o.Thin / max(1, seeds)
	var all []trace.Request
	for i := first; i < len(o.Trace); i += o.Thin {
		all = append(all, o.Trace[i])
	}
	if len(all) == 0 {
		return errors.New("no request of the trace is left; name a longer one, or a lower --thin")
	}
	end := all[len(all)-1].At + 1
	r.before, r.coming = trace.Slice(all, 0, streamKnown), trace.Slice(all, streamKnown, end)
	if len(r.before) == 0 || len(r.coming) == 0 {
		return fmt.Errorf("the trace has %d requests in its first %v and %d behind, of one in %d; there must be some of each: name a longer one, or a lower --thin", len(r.before), streamKnown, len(r.coming), o.Thin)
	}
	return nil
}

// promised sets the SLO: a multiple of what the longest request takes alone with all experts on the
// host, none of it cold.
func (r *streamRun) promised(o *streamOf, shape routing.Shape, longest int) error {
	p := &r.promise
	for _, of := range [][]trace.Request{r.before, r.coming} {
		for i := range of {
			of[i].Context = min(of[i].Context, longest-1)
			of[i].Generated = min(of[i].Generated, longest-of[i].Context)
			p.Most, p.Output = max(p.Most, of[i].Context), max(p.Output, of[i].Generated-1)
		}
	}
	even := make([]float32, r.System.Layers*r.System.Experts)
	for i := range even {
		even[i] = 1 / float32(r.System.Experts)
	}
	d := r.System.Expected(even, p.Most, p.Output)
	mix, fits := remoe.Mix(r.System, &d)
	if !fits {
		return renting.ErrMemory
	}
	p.SLO, p.Cold = serverless.SLO{TTFT: o.times * mix.Prefill, TPOT: o.times * mix.TPOT()}, o.times*mix.Cold
	r.Serving = requests.Defaults(shape)
	// Prompts are computed whole, as the equations have them.
	r.Serving.Batching.MaxRows, r.Serving.Batching.MaxSeconds = streamRows, 0
	r.Serving.MaxSequences, r.Serving.Drain = streamSequences, time.Hour
	r.Serving.SLO = requests.SLO{TTFT: seconds(p.TTFT), TPOT: seconds(p.TPOT)}
	return nil
}

const (
	streamRows      = 1 << 15
	streamSequences = 64
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// lines run a policy: one that plans by the price of kept memory at each price, and MoEless with each
// size of functions, of which the best counts.
func (r *streamRun) lines(policy string) (all []*RemoeStreamLine, err error) {
	c := streamed.Conditions{Promise: r.promise, Watched: r.watched}
	run := func(idle, mb float64) (*RemoeStreamLine, error) {
		c.Idle, c.Memory = idle, mb*(1<<20)
		p, err := streamed.Named(policy, c)
		if err != nil {
			return nil, err
		}
		got, err := streamed.Run(r.coming, r.before, r.tape, r.Settings, p)
		if err != nil {
			return nil, err
		}
		l := streamLine(got, r.device, mb)
		if l.Idle = -1; priced(policy) {
			l.Idle = idle
		}
		return l, nil
	}
	switch {
	case priced(policy):
		for _, idle := range streamIdle {
			l, err := run(idle, 0)
			if err != nil {
				return nil, err
			}
			all = append(all, l)
		}
		return all, nil
	case policy == "moeless":
		l, err := r.best(run)
		return []*RemoeStreamLine{l}, err
	}
	l, err := run(0, 0)
	return []*RemoeStreamLine{l}, err
}

func priced(policy string) bool { return strings.HasPrefix(policy, "priced") }

// best is MoEless with the size of functions with which most requests keep the SLO, of such the cheapest
// where kept memory costs something.
func (r *streamRun) best(run func(idle, mb float64) (*RemoeStreamLine, error)) (best *RemoeStreamLine, err error) {
	for _, mb := range moelessSizes {
		if mb*(1<<20) < r.System.Expert+float64(r.promise.Most)*r.System.Token {
			continue // an expert and its rows have no room
		}
		l, err := run(0, mb)
		if err != nil {
			return nil, err
		}
		if best == nil || l.Good > best.Good+0.01 || l.Good > best.Good-0.01 && l.Cost(streamIdle[1]) < best.Cost(streamIdle[1]) {
			best = l
		}
	}
	if best == nil {
		return nil, renting.ErrMemory
	}
	return best, nil
}

func streamLine(r *streamed.Result, device string, mb float64) *RemoeStreamLine {
	return &RemoeStreamLine{
		Device: device, Main: r.Main, Computing: r.Computing, Starting: r.Starting, Kept: r.Kept, Requests: r.Requests, Rows: r.Tokens,
		Good: r.Good, TTFT50: 1e3 * r.TTFT.P50, TTFT99: 1e3 * r.TTFT.P99, TPOT50: 1e3 * r.TPOT.P50, TPOT99: 1e3 * r.TPOT.P99, Unfinished: r.Unfinished, Functions: mb, Containers: r.Containers, Waits: r.Waits,
		Changes: r.Changes, Elapsed: r.Elapsed,
	}
}

// streamChanges set what plans that follow cost beside the others, seed by seed.
func streamChanges(lines []RemoeStreamLine) (all []RemoeStreamChange) {
	type key struct {
		part, shape, policy string
		value, idle         float64
	}
	by := map[key][]*RemoeStreamLine{}
	var order []key
	for i := range lines {
		l := &lines[i]
		for _, idle := range streamIdle {
			if l.Idle >= 0 && l.Idle != idle {
				continue
			}
			k := key{l.Part, l.Shape, l.Policy, l.Value, idle}
			if by[k] == nil {
				order = append(order, k)
			}
			by[k] = append(by[k], l)
		}
	}
	for _, policy := range streamOurs {
		for _, k := range order {
			ours := by[key{k.part, k.shape, policy, k.value, k.idle}]
			if k.policy != policy && len(ours) == len(by[k]) {
				all = append(all, streamChange(ours, by[k], k.idle))
			}
		}
	}
	return all
}

// streamOurs are the plans that follow, which others are set beside.
var streamOurs = []string{"remoe", "priced"}

func streamChange(ours, others []*RemoeStreamLine, idle float64) RemoeStreamChange {
	o := others[0]
	c := RemoeStreamChange{Part: o.Part, Value: o.Value, Shape: o.Shape, Policy: ours[0].Policy, Against: o.Policy, Idle: idle, Seeds: len(ours)}
	var changes []float64
	for i := range ours {
		changes = append(changes, ours[i].Cost(idle)/others[i].Cost(idle)-1)
		c.Good, c.GoodAgainst = c.Good+ours[i].Good/float64(c.Seeds), c.GoodAgainst+others[i].Good/float64(c.Seeds)
	}
	c.Change, c.Low, c.High = Interval95(changes)
	return c
}
