package scatter

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// Plan is what is decided of a model.
type Plan struct {
	Layers []Layer
}

// Layer is what is decided of a layer.
type Layer struct {
	Mode    Mode
	Beta    int // most rows of a minibatch: β; of mode Pipelined alone
	Experts []Function
}

// Function is what is decided of an expert.
type Function struct {
	Memory   float64 `json:"memory_bytes"` // M
	Replicas int     `json:"replicas"`     // g
}

// Rows are those of each replica: r = ⌈d/g⌉.
func Rows(load float64, replicas int) int { return int(math.Ceil(load / float64(replicas))) }

// Minibatches is n = ⌈r/β⌉ with β no more than r, which it returns too.
func Minibatches(rows, beta int) (n, of int) {
	of = max(1, min(beta, rows))
	return (rows + of - 1) / of, of
}

// Replica is what one replica takes for its rows: t1, t2 or t3.
func (s *System) Replica(m Mode, beta, rows int, memory float64) float64 {
	r := float64(rows)
	in, out := s.Store(s.In), s.Store(s.Out)
	switch m {
	case Pipelined:
		n, of := Minibatches(rows, beta)
		b := float64(of)
		return s.Begin() + float64(n)*(s.Delay()+max(b*in+s.Computes(of, memory), b*out)) + s.Delay() + b*out
	case Indirect:
		return s.Begin() + 2*s.Delay() + r*(in+out) + s.Computes(rows, memory)
	}
	return s.Begin() + s.Computes(rows, memory) + r*s.Message(s.Out)
}

// Least is no more than Replica with Pipelined and any β: n is taken for r/β, and β for what is best then.
func (s *System) Least(rows int, memory float64) float64 {
	r, out := float64(rows), s.Store(s.Out)
	b := r
	if out > 0 {
		b = min(r, max(1, math.Sqrt(r*s.Delay()/out)))
	}
	return s.Begin() + max(1, r/b)*s.Delay() + r*max(s.Store(s.In)+s.leastRow(memory), out) + s.Delay() + b*out
}

// Cost is what an expert's replicas are billed for so many seconds each, in dollars: g·t·M of
// equations 4 and 5.
func (s *System) Cost(seconds float64, f Function) float64 {
	return s.Functions.Run(f.Memory, seconds) * float64(f.Replicas)
}

// Arrival is when an expert's rows have come since the layer began, as far as the way through the
// store says: u1 of so many experts with rows, or u2 of all rows.
func (s *System) Arrival(m Mode, beta int, loads []float64) float64 {
	experts, all := sum(loads)
	switch m {
	case Pipelined:
		return s.Delay() + s.Store(min(float64(experts*beta), all)*s.In)
	case Indirect:
		return s.Delay() + s.Store(all*s.In)
	}
	return 0
}

// Answers are the bytes of all of a layer's answers.
func (s *System) Answers(loads []float64) float64 {
	_, all := sum(loads)
	return all * s.Out
}

func sum(loads []float64) (experts int, all float64) {
	for _, d := range loads {
		if d > 0 {
			experts++
			all += d
		}
	}
	return experts, all
}

// Ends is when a replica that takes so long ends, since the layer began, given when rows come.
func (s *System) Ends(m Mode, arrival float64, rows int, seconds float64) float64 {
	if m == Direct {
		return s.Message(float64(rows)*s.In) + seconds
	}
	return max(arrival, s.Begin()) + seconds - s.Begin()
}

// After is a layer's latency, given when the last of its experts ends.
func (s *System) After(m Mode, ends float64, loads []float64) float64 {
	if m == Direct {
		return ends + s.Load()
	}
	return max(ends, s.Load()) + s.Delay() + s.Store(s.Answers(loads))
}

// Latency is a layer's: from its first byte to the last answer.
func (s *System) Latency(l *Layer, loads []float64) float64 {
	arrival, ends := s.Arrival(l.Mode, l.Beta, loads), 0.0
	for i, d := range loads {
		if d > 0 {
			f := l.Experts[i]
			r := Rows(d, f.Replicas)
			ends = max(ends, s.Ends(l.Mode, arrival, r, s.Replica(l.Mode, l.Beta, r, f.Memory)))
		}
	}
	return s.After(l.Mode, ends, loads)
}

// Beside is what a batch takes beside its layers' latencies: the rest of 6d's left side.
func (s *System) Beside() float64 {
	return s.Head + s.Tail + float64(s.Layers)*s.Between
}

// Bill is what a batch takes.
type Bill struct {
	Cost     float64 // dollars of memory: the objective 6a
	GBs      float64 // the same in GB·s
	Seconds  float64 // from the first layer to the last: 6d's left side
	Layers   []float64
	Requests float64 // dollars of invocations and of the store, beside Cost
	// What is invoked, put and read, and the seconds of transfers in functions.
	Calls, Puts, Gets int
	Transfers         float64
	// Mended are functions that needed more replicas than planned: for their memory, and for the
	// payload of direct transfers.
	Short, Large int
}

// Dollars are all that is paid.
func (b *Bill) Dollars() float64 { return b.Cost + b.Requests }

// Serve is the bill of rows under a plan. A function whose memory or payload is too small for its
// rows has as many more replicas as they need, which is counted.
func (s *System) Serve(p *Plan, loads [][]float64) Bill {
	b := Bill{Seconds: s.Beside()}
	for l := range p.Layers {
		one := Layer{p.Layers[l].Mode, p.Layers[l].Beta, slices.Clone(p.Layers[l].Experts)}
		for i, d := range loads[l] {
			if d > 0 {
				s.mend(&b, &one, i, d)
				s.function(&b, &one, one.Experts[i], d)
			}
		}
		took := s.Latency(&one, loads[l])
		b.Layers = append(b.Layers, took)
		b.Seconds += took
	}
	return b
}

// mend gives an expert the replicas that its rows need: cases (i) and (ii) of section IV-B.
func (s *System) mend(b *Bill, l *Layer, i int, d float64) {
	f := &l.Experts[i]
	if room := s.Room(f.Memory); Rows(d, f.Replicas) > room {
		f.Replicas = int(math.Ceil(d / float64(max(1, room))))
		b.Short++
	}
	if l.Mode != Direct {
		return
	}
	if most := max(1, s.Functions.Rows(max(s.In, s.Out))); Rows(d, f.Replicas) > most {
		f.Replicas = int(math.Ceil(d / float64(most)))
		b.Large++
	}
}

// Room is how many rows a replica with so much memory holds, by 6c.
func (s *System) Room(memory float64) int {
	return int(min(manyRows, max(0, math.Floor((memory-s.Needs(0))/(s.In+s.Out)))))
}

// function adds an expert's replicas to a bill.
func (s *System) function(b *Bill, l *Layer, f Function, d float64) {
	r := Rows(d, f.Replicas)
	t := s.Replica(l.Mode, l.Beta, r, f.Memory)
	b.Cost += s.Cost(t, f)
	b.GBs += meter.Invocation(t, f.Memory, f.Replicas)
	b.Transfers += float64(f.Replicas) * (t - s.Begin() - s.Computes(r, f.Memory))
	puts, gets := 0, 0
	if !s.Kept {
		gets = 1
	}
	switch l.Mode {
	case Pipelined:
		n, _ := Minibatches(r, l.Beta)
		puts, gets = 2*n, gets+2*n
	case Indirect:
		puts, gets = 2, gets+2
	}
	stored := s.Functions.Store(d*(s.In+s.Out), t)
	if l.Mode == Direct {
		stored = 0
	}
	b.Calls, b.Puts, b.Gets = b.Calls+f.Replicas, b.Puts+f.Replicas*puts, b.Gets+f.Replicas*gets
	b.Requests += s.Functions.Invoke(f.Replicas) + s.Functions.Objects(f.Replicas*puts, f.Replicas*gets) + stored
}
