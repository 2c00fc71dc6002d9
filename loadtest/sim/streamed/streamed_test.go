package streamed

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/choices"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

const mb = 1 << 20

// system has 2 layers of 4 experts.
func system() *serverless.System {
	s := &serverless.System{
		Model: serverless.Model{Layers: 2, Experts: 4, TopK: 2, Expert: 2 * mb, Fixed: 10 * mb, Token: 512, Cache: 4096},
		Functions: cost.Platform{
			PerCPU: cost.GB / 64, CPU: cost.Roofline{Bandwidth: 1e9, Rate: 4e9, ElementBytes: 2}, Threads: 1,
			Container: 0.5, Parameters: cost.Link{Bandwidth: 1e9}, Fixed: 0.0005, Payload: 6 * mb, Prices: cost.Prices{Memory: 16.67e-6},
		},
		GPU: cost.Roofline{Bandwidth: 1.8e12, Rate: 200e12, ElementBytes: 2}, GPULayer: 1e-4, GPUPrice: 50e-6,
		Switch: cost.Link{Latency: 1e-5, Bandwidth: 25e9}, Network: 1.25e9, Replicas: 2,
	}
	for m := 4.; m <= 40; m += 4 {
		s.Functions.Sizes, s.Main = append(s.Functions.Sizes, m*mb), append(s.Main, m*mb)
	}
	return s
}

// run has a request every second for some time, a pause, and some more.
func run(t *testing.T, name string, keepAlive, idle float64) *Result {
	t.Helper()
	y := system()
	g, err := choices.New(routing.Shape{Layers: y.Layers, Experts: y.Experts, TopK: y.TopK}, choices.Demo(), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	tape := requests.NewTape(g, sim.Replay{Domains: 2, Cycle: 2 * time.Minute, Seed: 1})
	var rs []trace.Request
	for i := range 80 {
		at := time.Duration(i) * time.Second
		if i >= 60 {
			at += 30 * time.Second
		}
		rs = append(rs, trace.Request{At: at, Context: 20 + i%7, Generated: 10})
	}
	set := Settings{System: y, Serving: requests.Defaults(g.Shape), KeepAlive: keepAlive, Idle: idle, Every: 2, Seed: 1}
	c := Conditions{Promise: Promise{SLO: serverless.SLO{TTFT: 20, TPOT: 5}, Most: 30, Output: 10}, Idle: idle, Memory: 8 * mb}
	if strings.HasSuffix(name, "hindsight") {
		if c.Watched, err = Watch(rs, rs[:20], tape, set); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Named(name, c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(rs, rs[:20], tape, set, p)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// Every policy serves all requests with the same rows, and is billed for what the meter has.
func TestPolicies(t *testing.T) {
	rows := 0
	for _, name := range []string{"mix", "remoe-static", "remoe-hindsight", "remoe-replicas", "remoe", "priced-static", "priced-hindsight", "priced", "moeless"} {
		r := run(t, name, 10, 1)
		if rows == 0 {
			rows = r.Tokens
		}
		if r.Unfinished > 0 || r.Requests != 80 || r.Tokens != rows || r.Main <= 0 || r.Good < 0 || r.Good > 1 {
			t.Errorf("%s: %+v", name, r)
		}
		y := system()
		y.Functions.Memory *= meter.Gigabyte / cost.GB
		held, billed := y.Functions.Memory*r.Held(), r.Computing+r.Starting+r.Kept // and hosts that start where ours has others
		if billed < held*(1-1e-9) || billed > held*(1+1e-9) && !strings.HasPrefix(name, "priced") {
			t.Errorf("%s: billed %v, %v, %v; held %v", name, r.Computing, r.Starting, r.Kept, held)
		}
		if again := run(t, name, 10, 1); !reflect.DeepEqual(again, r) {
			t.Errorf("%s: the same run gives another result", name)
		}
		if (name == "mix") != (r.Containers == 0) && !strings.HasPrefix(name, "priced") {
			t.Errorf("%s has %d containers", name, r.Containers)
		}
	}
}

// What is not used ends after the keep-alive, and rows wait for the next start; with a longer one
// nothing starts again, and more is kept.
func TestKeepAlive(t *testing.T) {
	short, long := run(t, "remoe-static", 5, 1), run(t, "remoe-static", 100, 1)
	if short.Waits == 0 || long.Waits > 0 || short.Containers <= long.Containers || short.Kept >= long.Kept || short.TTFT.P99 <= long.TTFT.P99 {
		t.Errorf("5 s: %+v\n100 s: %+v", short, long)
	}
	if free := run(t, "remoe-static", 100, 0); free.Kept != 0 || free.Computing != long.Computing {
		t.Errorf("%+v", free)
	}
}

// A function that has other experts takes over when it has started, and the old one ends then; one
// that is wanted all along stays.
func TestFollow(t *testing.T) {
	f := newFleet(Settings{System: system(), KeepAlive: 10})
	a, b := Function{Experts: []int{0, 1}, Memory: 8 * mb, Replicas: 1}, Function{Experts: []int{1, 2}, Memory: 8 * mb, Replicas: 2}
	f.follow(&Plan{Layers: [][]Function{{a}, {a}}}, 0, true)
	f.follow(&Plan{Layers: [][]Function{{b}, {a}}}, 1, false)
	if l := &f.layers[0]; l.of[0] != 0 || l.of[2] != -1 || len(f.layers[1].now[0].replicas) != 1 || f.began != 4 {
		t.Fatalf("%+v, %d containers", l, f.began)
	}
	f.follow(&Plan{Layers: [][]Function{{b}, {a}}}, 1.1, false)
	f.expire(0, 2)
	if l := &f.layers[0]; l.of[0] != -1 || l.of[2] != 0 || len(l.now[0].replicas) != 2 || f.began != 4 {
		t.Fatalf("%+v, %d containers", l, f.began)
	}
	f.follow(&Plan{Layers: [][]Function{nil, {a}}}, 3, false)
	if l := &f.layers[0]; len(l.now) != 0 || l.of[2] != -1 {
		t.Errorf("%+v", l)
	}
	if s := f.meter.Read(3); math.Abs(s.Held()-(2+3+2+2)*8*mb/1e9) > 1e-9 {
		t.Errorf("%+v", s)
	}
}

// Ours costs little more than all experts beside attention whatever it costs to keep memory: it plans by
// means.
func TestPriced(t *testing.T) {
	mix := run(t, "mix", 10, 1)
	for _, idle := range []float64{0, 1} {
		if r := run(t, "priced-hindsight", 10, idle); dollars(r) > dollars(mix)*1.15 {
			t.Errorf("at %v: %v, and mix costs %v", idle, dollars(r), dollars(mix))
		}
	}
}

func TestRefused(t *testing.T) {
	good := Settings{System: system(), KeepAlive: 1, Idle: 1, Every: 1}
	for want, spoil := range map[string]func(*Settings){
		"stays for 0 s": func(s *Settings) { s.KeepAlive = 0 }, "costs 2 times": func(s *Settings) { s.Idle = 2 },
		"every NaN s": func(s *Settings) { s.Every = math.NaN() }, "0 replicas": func(s *Settings) { s.System = system(); s.System.Replicas = 0 },
	} {
		s := good
		spoil(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, name := range []string{"best", "priced-hindsight"} {
		if _, err := Named(name, Conditions{}); err == nil {
			t.Errorf("%s is made", name)
		}
	}
}

// dollars returns what a run costs.
func dollars(r *Result) float64 { return r.Main + r.Computing + r.Starting + r.Kept }
