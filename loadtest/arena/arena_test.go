package arena

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// small is a suite of some seconds of a trace.
func small() Settings {
	var rs []trace.Request
	for i := range 12 {
		rs = append(rs, trace.Request{At: time.Duration(i) * 400 * time.Millisecond, Context: 300 + 40*i, Generated: 5})
	}
	return Settings{
		Suite: MoEless(), BackEnd: Simulator{}, Trace: rs, TraceName: "small.csv", Slice: time.Hour, Short: 3 * time.Second, Seed: 1, PerSecond: 4,
		Shapes: []string{"mixtral-8x7b"}, Routing: routing.Demo(), Fitted: "demo", Domains: 5, Hosts: 8, Distance: 1, CV: 0.2, KeepAlive: 60,
		Variants: true, Threads: 2, Progress: func(string, ...any) {},
	}
}

func compare(t *testing.T, s Settings) *Report {
	r, err := Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	r.Seconds = 0
	return r
}

// The same seed gives the same report, whatever runs at once; another one another.
func TestSeed(t *testing.T) {
	s := small()
	s.Variants = false
	first := compare(t, s)
	s.Threads = 1
	again := compare(t, s)
	first.suite, again.suite = Suite{}, Suite{} // functions are equal to nothing
	if !reflect.DeepEqual(first, again) {
		t.Error("the same seed gives another report")
	}
	s.Seed = 2
	if other := compare(t, s); reflect.DeepEqual(first.Lines, other.Lines) {
		t.Error("another seed gives the same lines")
	}
}

// Even routing is nothing to gain on; no policy is faster than the oracle.
func TestEven(t *testing.T) {
	s := small()
	s.Time = profiles.Printed // else few rows make uneven accesses of even routing
	r := compare(t, s)
	static := find(r.Lines, partRouting, "mixtral-8x7b", routingEven, "static")
	for _, l := range r.Lines {
		if l.Routing == routingEven && l.Mean < 0.97*static.Mean {
			t.Errorf("%s gains on even routing: %v ms, static %v", l.Policy, l.Mean, static.Mean)
		}
		if o := find(r.Lines, l.Part, l.Shape, l.Routing, "oracle"); o != nil && l.Mean < o.Mean*(1-1e-9) {
			t.Errorf("%s/%s: %s takes %v ms, the oracle %v", l.Part, l.Routing, l.Policy, l.Mean, o.Mean)
		}
	}
}

// The report has what outsiders read, each plot, and no word of the network.
func TestReport(t *testing.T) {
	s := small()
	s.Methods = []Method{{Distance: 1, Method: "moeless", Accuracy: 0.9}, {Distance: 2, Method: "moeless", Accuracy: 0.8}}
	s.Accuracy = Accuracy(s.Methods, "moeless")
	r, dir := compare(t, s), filepath.Join(t.TempDir(), "new", "report")
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.json", "lines.csv", "cdf.csv", "claims.csv", "intervals.csv", "report.html"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		switch name {
		case "report.json":
			var back Report
			if err := json.Unmarshal(data, &back); err != nil || len(back.Lines) != len(r.Lines) || len(back.Claims) == 0 {
				t.Errorf("%v: %d lines, %d claims", err, len(back.Lines), len(back.Claims))
			}
		case "report.html":
			if n := bytes.Count(data, []byte("<svg")); n != 8 || bytes.Contains(data, []byte("src=")) || !bytes.Contains(data, []byte("nothing can be faster")) {
				t.Errorf("%d plots in the page", n)
			}
		}
	}
	line, _ := json.Marshal(r.MainLines()[0])
	for _, key := range []string{"shape", "policy", "layer_ms_mean", "layer_ms_p50", "layer_ms_p99", "cost_gb_s", "cost_resident_gb_s", "replicas_mean", "cold_starts", "tokens", "device"} {
		if !strings.Contains(string(line), `"`+key+`":`) {
			t.Errorf("%s is not in %s", key, line)
		}
	}
	for _, l := range r.Lines {
		if math.IsNaN(l.Mean+l.Cost+l.Resident) || l.Mean <= 0 || l.Tokens < 1 {
			t.Errorf("%+v", l)
		}
	}
}

// broken is a back end that fails, or waits for the end.
type broken struct {
	Simulator
	err error
}

func (b broken) Run(ctx context.Context, _ *sim.Workload, _ sim.Settings, _ sim.Policy) (*sim.Result, error) {
	if b.err == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, b.err
}

func TestFaults(t *testing.T) {
	s, bad := small(), errors.New("bad")
	s.BackEnd = broken{err: bad}
	if _, err := Run(context.Background(), s); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, b := range []BackEnd{broken{}, Simulator{}} {
		s.BackEnd = b
		if _, err := Run(ctx, s); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	for want, change := range map[string]func(*Settings){
		"the trace has no requests":     func(s *Settings) { s.Trace = nil },
		"slices of 0s and 3s":           func(s *Settings) { s.Slice = 0 },
		"no shape is named":             func(s *Settings) { s.Shapes = nil },
		`no shape "gpt-9"`:              func(s *Settings) { s.Shapes = []string{"gpt-9"} },
		`"mixtral-8x7b" is named twice`: func(s *Settings) { s.Shapes = []string{"mixtral-8x7b", "mixtral-8x7b"} },
		"there are 0 hosts":             func(s *Settings) { s.Hosts = 0 },
		"0 iterations a second":         func(s *Settings) { s.PerSecond = 0 },
	} {
		s := small()
		change(&s)
		if _, err := Run(context.Background(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A trace of one request is served, in layers of one time each.
func TestOneRequest(t *testing.T) {
	s := small()
	s.Variants, s.Trace, s.Routing = false, []trace.Request{{Context: 1, Generated: 1}}, routing.Even()
	s.Suite.Policies = func() []sim.Policy { return sim.Policies()[:1] }
	if err := compare(t, s).Write(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestMethods(t *testing.T) {
	ms, err := readMethods(strings.NewReader(`{"model":"x","distances":[{"distance":2,"method":"moeless","accuracy":0.8},{"distance":1,"method":"moeless","accuracy":0.9},{"distance":1,"method":"history","accuracy":0.2}]}`))
	if err != nil || !reflect.DeepEqual(Accuracy(ms, "moeless"), []float64{0.9, 0.8}) || Accuracy(ms, "promoe") != nil {
		t.Errorf("%v, %v", ms, err)
	}
	for _, bad := range []string{"", "[]", `{}`, `{"distances":[{"distance":0,"method":"a","accuracy":1}]}`, `{"distances":[{"distance":1,"method":"a","accuracy":2}]}`, `{"distances":[{"distance":1,"accuracy":1}]}`} {
		if _, err := readMethods(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// FuzzMethods wants an error or accuracies that can be used.
func FuzzMethods(f *testing.F) {
	f.Add(`{"distances":[{"distance":1,"method":"moeless","accuracy":0.9}]}`)
	f.Add(`{"distances":[{"distance":1e9,"accuracy":"x"}]}`)
	f.Fuzz(func(t *testing.T, data string) {
		ms, err := readMethods(strings.NewReader(data))
		if err != nil {
			return
		}
		for _, a := range Accuracy(ms, ms[0].Method) {
			if !(a >= 0 && a <= 1) {
				t.Fatalf("%+v", ms)
			}
		}
	})
}
