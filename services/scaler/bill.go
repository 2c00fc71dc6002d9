package scaler

import (
	"container/list"
	"context"
	"math"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// bills are those of the requests under way, by their ids.
type bills struct {
	system  *serverless.System
	slo     serverless.SLO
	main    float64 // bytes of the host beside attention by the plan in force
	metrics telemetry.RentedMetrics
	live    map[string]*list.Element
	order   *list.List // of *billed, the oldest first
}

func newBills(y *serverless.System, slo serverless.SLO, main float64, m telemetry.RentedMetrics) bills {
	return bills{system: y, slo: slo, main: main, metrics: m, live: map[string]*list.Element{}, order: list.New()}
}

// billed is a request under way.
type billed struct {
	id     string
	ctx    context.Context //nolint:containedctx // of its trace
	main   float64
	prompt int
	tokens int
	cost   *pb.Cost
}

// mostBilled bounds the requests under way that are billed. More are not under way at once: the
// oldest has ended, and its end was not heard, as no stream keeps what this scaler hears.
const mostBilled = 1 << 13

// open begins a request's bill, which it may have: a sequence may be stored again.
func (b *bills) open(ctx context.Context, id string, prompt int) {
	if q := b.of(id); q != nil {
		q.ctx = ctx
		return
	}
	if b.order.Len() >= mostBilled {
		b.take(b.order.Front())
		b.metrics.Unbilled.Inc()
	}
	b.live[id] = b.order.PushBack(&billed{id: id, ctx: ctx, main: b.main, prompt: prompt})
}

// of returns a request's bill; nil where it has none.
func (b *bills) of(id string) *billed {
	e := b.live[id]
	if e == nil {
		return nil
	}
	q, _ := e.Value.(*billed) // the list has no others
	return q
}

func (b *bills) rent(id string, main float64) {
	if q := b.of(id); q != nil {
		q.main = main
	}
}

func (b *bills) trace(id string) context.Context {
	if q := b.of(id); q != nil {
		return q.ctx
	}
	return context.Background()
}

func (b *bills) take(e *list.Element) *billed {
	q, _ := b.order.Remove(e).(*billed) // the list has no others
	delete(b.live, q.id)
	return q
}

// hear takes in a record of a request's log.
func (b *bills) hear(subject string, r *pb.Record, tracer *telemetry.Tracer) {
	q := b.of(subject[strings.LastIndexByte(subject, '.')+1:])
	if q == nil {
		return // it came before this scaler planned
	}
	switch {
	case r.GetToken() != nil:
		q.tokens = max(q.tokens, int(r.GetToken().Index)+1)
		q.cost = r.GetToken().Cost
	case r.GetTerminal() != nil:
		b.close(b.take(b.live[q.id]), r.GetTerminal(), tracer)
	}
}

// close bills a request that has ended with tokens: memory of the GPU and of the host beside
// attention for as long as it ran, and functions' for as long as each was computing.
func (b *bills) close(q *billed, end *pb.Terminal, tracer *telemetry.Tracer) {
	times := end.GetTimings()
	if times == nil || q.tokens == 0 {
		return
	}
	if end.GetCost() != nil {
		q.cost = end.Cost
	}
	seconds := max(0, times.Total-times.Queue)
	functions := q.cost.GetExpertGbS()
	gpu, host := b.system.GPUMemory(q.prompt+q.tokens-1), q.main
	c := &b.system.Functions
	price := c.Prices
	price.Memory = b.system.GPUPrice
	parts := []struct{ gbs, dollars float64 }{
		{meter.Invocation(seconds, gpu, 1), price.Run(gpu, seconds)},
		{meter.Invocation(seconds, host, 1), c.Run(host, seconds)},
		{functions, c.Run(functions*meter.Gigabyte, 1)},
	}
	dollars := 0.0
	for i, part := range telemetry.RentedParts {
		b.metrics.Billed(part, parts[i].gbs, parts[i].dollars)
		dollars += parts[i].dollars
	}
	b.metrics.Requests.Inc()
	missed := b.missed(q, times)
	_, span := tracer.Child(q.ctx, telemetry.SpanBill, trace.WithAttributes(
		telemetry.AttrGPUGBs.Float64(parts[0].gbs), telemetry.AttrHostGBs.Float64(parts[1].gbs), telemetry.AttrFunctionGBs.Float64(functions),
		telemetry.AttrDollars.Float64(dollars), telemetry.AttrMissed.Bool(missed)))
	span.End()
}

// missed counts the objectives that a request has missed.
func (b *bills) missed(q *billed, times *pb.Timings) (some bool) {
	tpot := 0.0
	if q.tokens > 1 {
		tpot = (times.Total - times.Ttft) / float64(q.tokens-1)
	}
	for i, over := range []bool{times.Ttft > b.slo.TTFT, tpot > b.slo.TPOT} {
		if over {
			b.metrics.Missed(telemetry.Objectives[i])
			some = true
		}
	}
	return some
}

const (
	// busyAim is the share of its time that a host is to compute in: the rest is for peaks.
	busyAim = 0.7
	// busyFor is over how many seconds work is averaged.
	busyFor = 30
	// mostHosts bounds what hosts can make of this by what they say.
	mostHosts = 10_000
)

// work is what expert hosts have to do: how many of them would be busy all the time with it, on
// the average of the last while. It has no clock.
type work struct {
	spent  map[string]float64 // seconds in which each host has computed, so far
	looked float64            // when
	hosts  float64
	known  bool
	least  int // that hold all experts, by their budgets
}

// look takes in what hosts say.
func (w *work) look(now float64, hosts []*pb.Member) {
	spent := make(map[string]float64, len(hosts))
	passed, busy := now-w.looked, 0.0
	for _, m := range hosts {
		seconds, says := m.Stats[members.HostSeconds]
		if !says || !(seconds >= 0) || math.IsInf(seconds, 1) {
			continue
		}
		spent[m.Id] = seconds
		if before, here := w.spent[m.Id]; here && passed > 0 {
			busy += min(max((seconds-before)/passed, 0), 1)
		}
	}
	switch first := w.spent == nil; {
	case first:
	case passed < 1: // members tell of themselves a few times a second
		return
	case !w.known:
		w.hosts, w.known = busy, true
	default:
		w.hosts += (busy - w.hosts) * (1 - math.Exp(-passed/busyFor))
	}
	w.spent, w.looked = spent, now
}

// holds takes in how many hosts the experts need: all fit on so many of the smallest.
func (w *work) holds(k plan.Known) {
	w.least = 1
	smallest := uint64(math.MaxUint64)
	for _, h := range k.Hosts {
		if h.Budget == 0 || k.Model.ExpertBytes == 0 {
			return
		}
		smallest = min(smallest, h.Budget/k.Model.ExpertBytes)
	}
	if len(k.Hosts) > 0 && smallest > 0 {
		w.least = min(int(math.Ceil(float64(len(k.Model.MoELayers)*k.Model.Experts)/float64(smallest))), mostHosts)
	}
}

// wanted returns how many hosts there should be.
func (w *work) wanted() int {
	const rounding = 1e-6
	return min(max(1, w.least, int(math.Ceil(w.hosts/busyAim-rounding))), mostHosts)
}

// hostsWanted reads that while this scaler plans, and knows.
func (p *policy) hostsWanted() []telemetry.Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active || !p.work.known {
		return nil
	}
	return []telemetry.Reading{{Value: float64(p.work.wanted())}}
}
