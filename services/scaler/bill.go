package scaler

import (
	"container/list"
	"context"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/meter"
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

// of is a request's bill; nil where it has none.
func (b *bills) of(id string) *billed {
	e := b.live[id]
	if e == nil {
		return nil
	}
	q, _ := e.Value.(*billed) // the list has no others
	return q
}

// rent says what the host beside attention has for a request that begins.
func (b *bills) rent(id string, main float64) {
	if q := b.of(id); q != nil {
		q.main = main
	}
}

// trace is the context of a request's trace.
func (b *bills) trace(id string) context.Context {
	if q := b.of(id); q != nil {
		return q.ctx
	}
	return context.Background()
}

// take ends a bill.
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
