package arena

import (
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// RemoeLive compares requests that the pipeline served one by one, with experts that are rented,
// with what the model of costs says of the same rows under the same plans. It is told what
// attention, gates and messages take, which are this machine's, by the first requests.
type RemoeLive struct {
	System    *serverless.System
	MoELayers []int
	Told      int // requests that it is told by; they are not compared
}

// RemoeFidelity is the comparison: means of the requests that are compared, in milliseconds, and
// the dollars of all requests, as the scaler billed them and as they are modelled.
type RemoeFidelity struct {
	Suite    string `json:"suite"`
	Part     string `json:"part"`
	Shape    string `json:"shape"`
	Policy   string `json:"policy"`
	Device   string `json:"device"`
	Requests int    `json:"requests"`
	Told     int    `json:"told_by"`
	// Beside are what a row of a prompt and a step of an answer take beside their experts.
	BesideRow    float64            `json:"beside_row_ms"`
	BesideStep   float64            `json:"beside_step_ms"`
	TTFT         Pair               `json:"ttft_ms"`
	TPOT         Pair               `json:"tpot_ms"`
	Cost         Pair               `json:"cost"`
	GBs          map[string]float64 `json:"gb_s"`
	Missed       map[string]float64 `json:"slo_missed"`
	Replans      int                `json:"replans"`
	LateReleases float64            `json:"late_release_ratio"`
	Answers      []RemoeAnswer      `json:"answers"`
}

// Pair is a figure on the pipeline, as it is modelled, and by which part they differ.
type Pair struct {
	Live      float64 `json:"live"`
	Simulated float64 `json:"simulated"`
	Off       float64 `json:"off_ratio"`
}

func pair(live, simulated float64) Pair { return Pair{live, simulated, simulated/live - 1} }

// RemoeAnswer is one request, in milliseconds.
type RemoeAnswer struct {
	Prompt int  `json:"prompt_tokens"`
	Tokens int  `json:"tokens"`
	TTFT   Pair `json:"ttft_ms"`
	TPOT   Pair `json:"tpot_ms"`
}

// String tells the comparison in a line.
func (f *RemoeFidelity) String() string {
	one := func(p Pair) string {
		return fmt.Sprintf("%.4g live, %.4g simulated (%+.1f %%)", p.Live, p.Simulated, 100*p.Off)
	}
	return fmt.Sprintf("%s on %s, %d requests, told by the first %d: TTFT ms %s; TPOT ms %s; cost of all $ %s",
		f.Policy, f.Device, f.Requests, f.Told, one(f.TTFT), one(f.TPOT), one(f.Cost))
}

// served is what a request took, live and modelled without what is beside experts, in seconds.
type servedLive struct {
	prompt, tokens, steps     int
	first, next               float64 // live: to the first token, and all further ones
	firstExperts, nextExperts float64
	main, dollars             float64 // the host's bytes, and dollars of functions
}

// Compare reads a run. Dollars are those that all its requests were billed.
func (l *RemoeLive) Compare(r *replay.Result, requests []replay.Request, dollars float64) (*RemoeFidelity, error) {
	if len(requests) <= l.Told || l.Told < 1 {
		return nil, fmt.Errorf("%d requests were served and %d are to tell what is beside experts; there must be more, and 1 to tell", len(requests), l.Told)
	}
	all := make([]servedLive, len(requests))
	at := 0
	for i := range requests {
		one, next, err := l.request(r, &requests[i], &r.Answers[i], at)
		if err != nil {
			return nil, fmt.Errorf("request %d: %w", i+1, err)
		}
		all[i], at = one, next
	}
	f := &RemoeFidelity{Suite: "remoe", Part: "live", Requests: len(requests), Told: l.Told, Replans: len(r.Changes), LateReleases: r.LateShare}
	row, step := beside(all[:l.Told])
	f.BesideRow, f.BesideStep = 1e3*row, 1e3*step
	var ttft, tpot [2]float64
	modelled := 0.0
	for i, one := range all {
		first, next := one.firstExperts+row*float64(one.prompt), one.nextExperts+step*float64(one.steps)
		modelled += one.dollars + (first+next)*l.System.Second(one.main, one.prompt+one.tokens-1)
		a := RemoeAnswer{Prompt: one.prompt, Tokens: one.tokens, TTFT: pair(1e3*one.first, 1e3*first)}
		n := 1e3 / float64(max(1, one.tokens-1))
		a.TPOT = pair(n*one.next, n*next)
		f.Answers = append(f.Answers, a)
		if i >= l.Told {
			share := 1 / float64(len(all)-l.Told)
			ttft[0], ttft[1] = ttft[0]+share*a.TTFT.Live, ttft[1]+share*a.TTFT.Simulated
			tpot[0], tpot[1] = tpot[0]+share*a.TPOT.Live, tpot[1]+share*a.TPOT.Simulated
		}
	}
	f.TTFT, f.TPOT, f.Cost = pair(ttft[0], ttft[1]), pair(tpot[0], tpot[1]), pair(dollars, modelled)
	return f, nil
}

// beside is what a row of a prompt and a step of an answer took beside experts, in the mean.
func beside(told []servedLive) (row, step float64) {
	var rows, steps, first, next float64
	for _, one := range told {
		rows, steps = rows+float64(one.prompt), steps+float64(one.steps)
		first, next = first+one.first-one.firstExperts, next+one.next-one.nextExperts
	}
	return max(0, first/max(1, rows)), max(0, next/max(1, steps))
}

// errSteps says that a run cannot be read.
var errSteps = errors.New("the run's steps are not all known")

// request reads a request's steps, which begin with a number of them.
func (l *RemoeLive) request(r *replay.Result, q *replay.Request, a *replay.Answer, at int) (one servedLive, next int, err error) {
	if a.Err != nil {
		return one, at, a.Err
	}
	one.prompt, one.tokens = len(q.IDs), len(a.Tokens)
	if n := len(a.Times); n > 0 {
		one.first, one.next = (a.Times[0] - a.Sent).Seconds(), (a.Times[n-1] - a.Times[0]).Seconds()
	}
	for rows := 0; at < len(r.Steps) && rows < one.prompt+one.tokens-1; at++ {
		s := &r.Steps[at]
		if s.At < a.Sent {
			continue // of the request before: of drafts that nobody asked for any more
		}
		if before(a, s.At) {
			return one, at, fmt.Errorf("%w: %d of %d rows were seen", errSteps, rows, one.prompt+one.tokens-1)
		}
		p, err := l.plan(r, s)
		if err != nil {
			return one, at, err
		}
		one.main = p.Main
		one.add(l.System, p, s, rows < one.prompt)
		rows += s.Rows
	}
	return one, at, nil
}

// before reports whether a step is of a later request.
func before(a *replay.Answer, at time.Duration) bool {
	return len(a.Times) > 0 && at > a.Times[len(a.Times)-1]
}

// plan is the plan that a step went by.
func (l *RemoeLive) plan(r *replay.Result, s *replay.Step) (*serverless.Plan, error) {
	k := plan.Known{Model: plan.Model{MoELayers: l.MoELayers, Experts: l.System.Experts}, InForce: map[int]*plan.Layer{}}
	for i, number := range l.MoELayers {
		k.InForce[number] = r.Plans[replay.Planned{Layer: number, Version: s.Layers[i].Version}]
	}
	if p := remoe.SharedPlanOf(l.System, k); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: step %d went by no plan of Remoe", errSteps, s.Number)
}

// add adds what a step's experts take, and cost as functions.
func (one *servedLive) add(y *serverless.System, p *serverless.Plan, s *replay.Step, prompt bool) {
	for i := range s.Layers {
		l := &p.Layers[i]
		if prompt {
			loads := serverless.Rows{Prefill: make([]float64, y.Experts)}
			for e, n := range s.Layers[i].Loads {
				loads.Prefill[e] = float64(n)
			}
			seconds, functions, _ := y.PrefillExperts(p.Main, l, &loads, s.Rows, y.Mean())
			one.firstExperts += seconds
			one.dollars += y.Functions.Run(l.Memory, functions)
			continue
		}
		away := 0
		for e, n := range s.Layers[i].Loads {
			if l.Remote[e] {
				away += int(n)
			}
		}
		seconds, function := y.DecodeExperts(p.Main, l.Memory, away, y.Mean())
		one.nextExperts += seconds
		one.dollars += y.Functions.Run(l.Memory, function)
	}
	if !prompt {
		one.steps++
	}
}
