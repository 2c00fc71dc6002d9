package arena

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"

	"gonum.org/v1/plot/plotter"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
)

// OnlineTrace are requests whose lengths and times online serving has (figure 10).
type OnlineTrace struct {
	Name     string
	Requests []trace.Request
}

const (
	partOnline = "online"
	// onlineRequests is how many are drawn of a trace, as in the paper.
	onlineRequests = 64
)

// OnlineServed is what requests took that were served one after the other, from empty stores.
type OnlineServed struct {
	Trace  string `json:"trace"`
	Shape  string `json:"shape"`
	Policy string `json:"policy"`
	// Device is what the times are of: simulated, or paced.
	Device string `json:"device"`
	// Factor is what the trace's lengths were multiplied with; 0: they are its own.
	Factor float64 `json:"factor,omitempty"`
	// Served are the seconds of each request from its first step on, in the order of the trace,
	// Latency those from its arrival.
	Served  []float64 `json:"served_s"`
	Latency []float64 `json:"latency_s"`
}

// drawn are so many requests of a trace, by a seed, in their order.
func (t OnlineTrace) drawn(seed uint64) (all []trace.Request) {
	left := slices.Clone(t.Requests)
	for range min(onlineRequests, len(left)) {
		i := int(splitmix.Next(&seed) % uint64(len(left)))
		all = append(all, left[i])
		left = slices.Delete(left, i, i+1)
	}
	slices.SortStableFunc(all, func(a, b trace.Request) int { return cmp.Compare(a.At, b.At) })
	return all
}

// online are the jobs of all traces.
func (s Offload) online() (jobs []offloadJob) {
	for _, name := range s.Shapes {
		for _, t := range s.Online {
			rs := t.drawn(s.Seed)
			jobs = append(jobs, offloadJob{
				shape: name, routing: routingFitted, seed: s.Seed,
				traffic: func() (of offload.Traffic, err error) {
					m, err := offload.Open(name)
					if err != nil {
						return of, err
					}
					var lengths []offload.Length
					for _, r := range rs {
						lengths = append(lengths, offload.Length{Prompt: r.Context, Answer: r.Generated})
					}
					return offload.Requests(m, s.Routing, s.Texts, lengths, s.Seed)
				},
				run: func(b *offloadBench) error { return b.online(t.Name, rs) },
			})
		}
	}
	return jobs
}

// online serves requests one after the other, as they come, from empty stores.
func (b *offloadBench) online(name string, rs []trace.Request) error {
	policies, err := some(offload.Held, offload.OnDemand, "mixtral-offloading", "promoe", "moe-infinity", offload.FMoE, offload.Ours)
	if err != nil {
		return err
	}
	for _, p := range policies {
		// Each policy has a lab of its own: what is foreseen of so many steps takes much memory.
		lab, err := offload.NewLab(b.traffic, b.bed, offload.DefaultDelays(), b.Distance, b.Capacity, 1)
		if err != nil {
			return err
		}
		lab.Empty, lab.Grows = true, true
		r, err := b.one(lab, partOnline, p, b.middle(), 0)
		if err != nil {
			return err
		}
		b.lines[len(b.lines)-1].Constant = name
		served := r.Batches(lab.Work())
		b.served = append(b.served, OnlineServed{Trace: name, Shape: b.job.shape, Policy: p.Name, Device: onSimulated, Served: served, Latency: queued(rs, served)})
	}
	return nil
}

// queued are the latencies of requests of which one at a time is served.
func queued(rs []trace.Request, served []float64) (latency []float64) {
	free := 0.0
	for i, r := range rs {
		at := (r.At - rs[0].At).Seconds()
		free = max(free, at) + served[i]
		latency = append(latency, free-at)
	}
	return latency
}

func (r *OffloadReport) onlineRows() [][]string {
	rows := [][]string{{"trace", "shape", "policy", "request", "served_s", "latency_s", "device", "factor"}}
	for _, o := range r.Online {
		for i := range o.Served {
			rows = append(rows, []string{o.Trace, o.Shape, o.Policy, strconv.Itoa(i + 1), number(o.Served[i]), number(o.Latency[i]), o.Device, number(o.Factor)})
		}
	}
	return rows
}

// String is what requests took, for people.
func (o OnlineServed) String() string {
	of := func(values []float64) string {
		sorted := slices.Sorted(slices.Values(values))
		return fmt.Sprintf("mean %7.2f s, p50 %7.2f, p90 %7.2f", average(sorted), quantile.Of(sorted, 0.5), quantile.Of(sorted, 0.9))
	}
	return fmt.Sprintf("%-14s online %-10s %-19s %s, served: %s; from arrival: %s\n", o.Shape, o.Trace, o.Policy, o.Device, of(o.Served), of(o.Latency))
}

// cdfs are the curves of figure 10.
func (r *OffloadReport) cdfs() (all []figure, err error) {
	drawn := map[[3]string]bool{}
	for _, of := range r.Online {
		key := [3]string{of.Shape, of.Trace, of.Device}
		if drawn[key] {
			continue
		}
		drawn[key] = true
		var curves []series
		for _, o := range r.Online {
			if o.Shape != of.Shape || o.Trace != of.Trace || o.Device != of.Device {
				continue
			}
			c := series{name: o.Policy}
			for i, v := range slices.Sorted(slices.Values(o.Served)) {
				c.points = append(c.points, plotter.XY{X: max(v, 1e-3), Y: float64(i+1) / float64(len(o.Served))})
			}
			curves = append(curves, c)
		}
		f, err := plotted(curves, of.Shape+", "+of.Device+": what requests of "+of.Trace+" took from their first step on, stores empty at the start (figure 10).", func() (template.HTML, error) {
			return lines(axes{of.Shape + ": requests, " + of.Trace + ", " + of.Device, "s", "part", true}, curves)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
