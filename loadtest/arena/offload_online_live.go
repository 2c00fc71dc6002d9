package arena

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/loadtest/record"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
)

// The devices of OnlineServed.
const (
	onSimulated = "simulated"
	onPaced     = "paced"
)

// OnlineFactor is what all lengths are multiplied with, so that the longest request that is
// drawn of any of the traces has so many tokens.
func OnlineFactor(traces []OnlineTrace, seed uint64, context int) (float64, error) {
	longest := 0
	for _, t := range traces {
		for _, r := range t.drawn(seed) {
			longest = max(longest, r.Tokens())
		}
	}
	if longest == 0 {
		return 0, errors.New("the traces have no tokens")
	}
	return min(1, float64(context)/float64(longest)), nil
}

// Scaled are the requests that are drawn of the trace, with their lengths, and the times between
// them, multiplied by a factor. Each has a prompt and an answer of one token or more, and no more
// than so many together, which are two or more.
func (t OnlineTrace) Scaled(seed uint64, factor float64, context int) []trace.Request {
	all := t.drawn(seed)
	for i := range all {
		r := &all[i]
		r.Generated = min(max(1, int(factor*float64(r.Generated)+0.5)), context-1)
		r.Context = min(max(1, int(factor*float64(r.Context)+0.5)), context-r.Generated)
		r.At = time.Duration(factor * float64(r.At))
	}
	return all
}

// Online are sequences of the lengths of requests: their prompts are those of the recording's
// domains, one after the other, from where the seed says.
func (r *Recorded) Online(rs []trace.Request, seed uint64) (all []record.Asked, err error) {
	prompts := map[int][]uint32{}
	var domains []int
	for _, t := range r.texts {
		if prompts[t.Domain] == nil {
			domains = append(domains, t.Domain)
		}
		prompts[t.Domain] = append(prompts[t.Domain], t.Tokens[:t.Prompt]...)
	}
	if len(domains) == 0 {
		return nil, errors.New("the recording has no prompts")
	}
	slices.Sort(domains)
	for _, q := range rs {
		domain := domains[splitmix.Next(&seed)%uint64(len(domains))]
		of := prompts[domain]
		at := int(splitmix.Next(&seed) % uint64(len(of)))
		a := record.Asked{Domain: fmt.Sprintf("domain %d", domain), Answer: q.Generated - 1}
		for i := range q.Context {
			a.IDs = append(a.IDs, of[(at+i)%len(of)])
		}
		all = append(all, a)
	}
	return all, nil
}

// NewOnlinePipeline serves all texts of a recording in their order, from empty stores.
func NewOnlinePipeline(r *Recorded, p OffloadPipeline) (*OffloadPipeline, error) {
	p.Traffic, p.Empty = offload.Traffic{Model: offload.Demo(), Gates: r.gates, Served: r.texts}, true
	if p.Shape != r.gates.Shape {
		return nil, errors.New("the recording is not of the demo model's shape")
	}
	return p.of(r)
}

// Of takes in what each request took. Requests have different lengths: TPOT is the mean of all decode
// steps, as the simulator's, and not of requests.
func (r *OffloadRun) Of(answers []replay.Answer) {
	var decoding time.Duration
	steps := 0
	for _, a := range answers {
		n := len(a.Times)
		r.Served = append(r.Served, (a.Times[n-1] - a.Sent).Seconds())
		decoding, steps = decoding+a.Times[n-1]-a.Times[0], steps+len(a.Tokens)-1
	}
	r.TPOT = 1e3 * decoding.Seconds() / float64(max(1, steps))
}

// Online is figure 10 of the pipeline and of its simulator, of runs that served a trace's
// requests: the mean of each request over repeats. Conclude comes before.
func (r *OffloadLiveReport) Online(p *OffloadPipeline, policies []LiveOffload, rs []trace.Request) (all []OnlineServed, err error) {
	for _, one := range policies {
		runs := r.runsOf(one.Name, r.Budgets[0])
		if len(runs) == 0 {
			continue
		}
		live := make([]float64, len(rs))
		for i := range live {
			live[i] = average(valuesOf(runs, func(r *OffloadRun) float64 { return r.Served[i] }))
		}
		all = append(all, r.onlineServed(one.Name, onPaced, rs, live))
		told := slices.IndexFunc(r.Told, func(t OffloadTold) bool { return t.Policy == one.Name })
		if told < 0 {
			continue
		}
		lab, err := p.lab(r.Told[told].Beside, r.Told[told].Delays)
		if err != nil {
			return nil, err
		}
		s, err := lab.Run(*one.Simulated, p.Model.Budget(r.Budgets[0]*gigabyte))
		if err != nil {
			return nil, err
		}
		all = append(all, r.onlineServed(one.Name, onSimulated, rs, s.Batches(lab.Work())))
	}
	return all, nil
}

func (r *OffloadLiveReport) onlineServed(policy, device string, rs []trace.Request, served []float64) OnlineServed {
	return OnlineServed{Trace: r.Trace, Shape: r.Model, Policy: policy, Device: device, Factor: r.Factor, Served: served, Latency: queued(rs, served)}
}

// OnlineReport is figure 10 of traces on the pipeline, in the form of the simulated suite's report.
func OnlineReport(p *OffloadPipeline, budgets []float64, served []OnlineServed) *OffloadReport {
	r := &OffloadReport{
		Budgets: budgets, Middle: budgets[0], Seed: p.Seed, Seeds: 1, Distance: p.Distance, Capacity: p.Capacity, Online: served,
		Routing: "The demo model's own routing, on paced hosts",
	}
	for _, o := range served {
		r.Texts.Served, r.Factor = max(r.Texts.Served, len(o.Served)), o.Factor
	}
	return r
}
