package arena

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// rentedRun is a run of three requests with four rows of a prompt and three tokens, which took what
// is modelled, and 1 ms a row of a prompt and 2 ms a step beside.
func rentedRun(t *testing.T) (l *RemoeLive, r *replay.Result, requests []replay.Request) {
	t.Helper()
	const mb = 1 << 20
	y := &serverless.System{
		Model: serverless.Model{Layers: 1, Experts: 4, TopK: 2, Expert: mb, Fixed: mb, Token: 100},
		Functions: cost.Platform{
			Sizes: []float64{4 * mb, 8 * mb}, PerCPU: 8 * mb, CPU: cost.Roofline{Bandwidth: 1e9, Rate: 1e12, ElementBytes: 2}, Payload: 1e6,
			Fixed: 0.001, Prices: cost.Prices{Memory: 1},
		},
		Main: []float64{16 * mb}, GPU: cost.Roofline{Bandwidth: 1e12, Rate: 1e14, ElementBytes: 2}, GPUPrice: 3, Switch: cost.Link{Bandwidth: 1e9}, Network: 1e9, Replicas: 2,
	}
	p := &serverless.Plan{Main: 16 * mb, Layers: []serverless.Layer{{Remote: []bool{false, true, true, true}, Memory: 8 * mb, Replicas: 2}}}
	k := plan.Known{Model: plan.Model{MoELayers: []int{3}, Experts: 4}, Hosts: []plan.Host{{ID: "a"}, {ID: "b"}, {ID: "c"}}}
	lp := remoe.SharedLayers(y, p, k, "")[0]
	lp.Version = 7
	in, err := plan.Rules{MoELayers: []int{3}, Experts: 4}.Check(lp)
	if err != nil {
		t.Fatal(err)
	}
	r = &replay.Result{Plans: map[replay.Planned]*plan.Layer{{Layer: 3, Version: 7}: in}}
	at := time.Duration(0)
	step := func(rows int, loads ...uint32) {
		r.Steps = append(r.Steps, replay.Step{Number: uint64(len(r.Steps)), At: at, Rows: rows, Layers: []replay.Layer{{Loads: loads, Version: 7}}})
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	for range 3 {
		a := replay.Answer{Tokens: []uint32{1, 2, 3}, Sent: at}
		first, _, _ := y.PrefillExperts(p.Main, &p.Layers[0], &serverless.Rows{Prefill: []float64{3, 2, 2, 1}}, 4, y.Mean())
		one, _ := y.DecodeExperts(p.Main, 8*mb, 1, y.Mean())
		two, _ := y.DecodeExperts(p.Main, 8*mb, 2, y.Mean())
		step(4, 3, 2, 2, 1)
		at += seconds(first + 4*0.001)
		a.Times = append(a.Times, at)
		step(1, 1, 1, 0, 0)
		at += seconds(one + 0.002)
		a.Times = append(a.Times, at)
		step(1, 0, 1, 0, 1)
		at += seconds(two + 0.002)
		a.Times = append(a.Times, at)
		at += time.Second
		r.Answers = append(r.Answers, a)
		requests = append(requests, replay.Request{IDs: []uint32{1, 2, 3, 4}, Tokens: 3})
	}
	return &RemoeLive{System: y, MoELayers: []int{3}, Told: 1}, r, requests
}

// What a run took is told apart into what is modelled and what is beside it.
func TestRemoeLive(t *testing.T) {
	l, r, requests := rentedRun(t)
	f, err := l.Compare(r, requests, 1)
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-4*math.Max(1, math.Abs(b)) }
	if !near(f.BesideRow, 1) || !near(f.BesideStep, 2) || !near(f.TTFT.Off, 0) || !near(f.TPOT.Off, 0) || f.TTFT.Live <= 4 || len(f.Answers) != 3 || f.Cost.Simulated <= 0 {
		t.Errorf("%+v", f)
	}
	if text := f.String(); !strings.Contains(text, "3 requests, told by the first 1: TTFT ms") {
		t.Error(text)
	}
	for _, tc := range []struct {
		name   string
		change func(*replay.Result)
		want   string
	}{
		{"a step is missing", func(r *replay.Result) { r.Steps = r.Steps[1:] }, "request 1"},
		{"a plan is missing", func(r *replay.Result) { clear(r.Plans) }, "no plan of Remoe"},
		{"a request failed", func(r *replay.Result) { r.Answers[2].Err = errors.New("it failed") }, "request 3: it failed"},
	} {
		_, r, _ := rentedRun(t)
		tc.change(r)
		if _, err := l.Compare(r, requests, 1); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := l.Compare(r, requests[:1], 1); err == nil {
		t.Error("none is compared")
	}
}
