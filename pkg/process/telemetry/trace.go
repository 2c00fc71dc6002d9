package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Names of the spans of a request, in the order of its path; forward.Step names those of
// its parts.
const (
	SpanPrompt    = "prompt"
	SpanTokenize  = "tokenize"
	SpanStep      = "step"
	SpanGate      = "gate"
	SpanPredict   = "predict"
	SpanExpert    = "expert"
	SpanAggregate = "aggregate"
	SpanChunk     = "chunk"
	// Of an expert that a hint has a host load: from the hint to its rows, or until it is given up; and the load.
	SpanPrefetch = "prefetch"
	SpanLoad     = "load"
)

// Keys of the spans' attributes.
const (
	AttrRequest  = attribute.Key("request_id")
	AttrLayer    = attribute.Key("layer")
	AttrStep     = attribute.Key("step")
	AttrRows     = attribute.Key("rows")
	AttrFunction = attribute.Key("function")
	AttrAttempt  = attribute.Key("attempt")
	// AttrMinibatch is which of a dispatch's minibatches is stored or fetched, from 0; the names of such
	// spans are the stages of package transfer.
	AttrMinibatch = attribute.Key("minibatch")
	// AttrDistance is how many layers ahead a prediction is.
	AttrDistance = attribute.Key("distance")
	// AttrFunctions is how many dispatches a gate makes, or a layer's block speaks of, and
	// AttrCritical the function that took longest of them.
	AttrFunctions = attribute.Key("functions")
	AttrCritical  = attribute.Key("critical_function")
	// AttrStalled are the experts that a dispatch has waited for, and AttrStall for how many
	// seconds.
	AttrStalled = attribute.Key("stalled_experts")
	AttrStall   = attribute.Key("stall_seconds")
	// What a prefetch is of, as probable as its hint said, what came of it, and what its load moved.
	AttrExpert      = attribute.Key("expert")
	AttrProbability = attribute.Key("probability")
	AttrOutcome     = attribute.Key("outcome")
	AttrBytes       = attribute.Key("bytes")
	// AttrTook is what rows took of a host's memory, in gigabytes times seconds: their request is billed
	// for it.
	AttrTook = attribute.Key("memory_gb_s")
	// AttrPlanVersion is of the layer's plan in use, and AttrReason why it came.
	AttrPlanVersion = attribute.Key("plan_version")
	AttrReason      = attribute.Key("reason")
	// What a step's rows obey in a brownout.
	AttrDirective = attribute.Key("brownout_version")
	AttrStrategy  = attribute.Key("brownout_strategy")
	AttrWay       = attribute.Key("brownout_way")
	AttrPrefill   = attribute.Key("brownout_threshold_prefill")
	AttrDecode    = attribute.Key("brownout_threshold_decode")
)

// EventPlan is the event of a gate's first span under another plan.
const EventPlan = "plan"

// SpanPlan is the span of a decision that changes plans. Its trace is its own; the
// spans of gates that come to use such a plan link to it.
const SpanPlan = "plan"

// The spans of a request whose experts are rented (policy remoe): what it asks of them is
// foretold, the steps of planning follow, and at its end stands its bill.
const (
	SpanForetell = "remoe.foretell"
	SpanRemoe    = "remoe." // and a step
	SpanBill     = "remoe.bill"
)

// Keys of its attributes.
const (
	AttrScaling = attribute.Key("scaling")
	AttrLayers  = attribute.Key("layers")
	// A bill's: gigabytes times seconds of each part, all of it in dollars, and whether the
	// request has missed its SLO.
	AttrGPUGBs      = attribute.Key("gpu_gb_s")
	AttrHostGBs     = attribute.Key("host_gb_s")
	AttrFunctionGBs = attribute.Key("functions_gb_s")
	AttrDollars     = attribute.Key("dollars")
	AttrMissed      = attribute.Key("slo_missed")
)

// Tracer makes the spans of one service. A nil Tracer makes none and allocates nothing.
type Tracer struct {
	tracer trace.Tracer
}

// Traces reports whether any spans are made.
func (t *Telemetry) Traces() bool { return t != nil && t.processor != nil }

// Tracer returns the tracer of one replica of a service: in the trace its spans stand
// under the process's name and the service's, and have the replica's id.
func (t *Telemetry) Tracer(service, replica string) *Tracer {
	if !t.Traces() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := [2]string{service, replica}
	tracer, ok := t.tracers[key]
	if !ok {
		tracer = &Tracer{t.provider(service, replica).Tracer("github.com/switchyard/switchyard")}
		t.tracers[key] = tracer
	}
	return tracer
}

// mostAttribute bounds the characters of an attribute: some are what clients wrote.
const mostAttribute = 128

// provider gives a replica its own resource; all providers share one processor.
func (t *Telemetry) provider(service, replica string) trace.TracerProvider {
	name := t.config.ServiceName
	if service != "" && service != name {
		name += "-" + service
	}
	about := []attribute.KeyValue{attribute.String("service.name", name)}
	if replica != "" {
		about = append(about, attribute.String("service.instance.id", replica))
	}
	if t.config.Version != "" {
		about = append(about, attribute.String("service.version", t.config.Version))
	}
	if t.config.Device != "" {
		about = append(about, attribute.String("device", t.config.Device))
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = mostAttribute
	return sdktrace.NewTracerProvider(
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSpanProcessor(t.processor),
		sdktrace.WithSampler(t.sampler),
		sdktrace.WithResource(resource.NewSchemaless(about...)),
	)
}

// Start starts a span, and with it a trace if ctx has none.
func (t *Tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	if t == nil {
		return ctx, noop.Span{}
	}
	return t.tracer.Start(ctx, name, opts...)
}

// Child starts a span within the trace of ctx; when there is none, or it is
// not sampled, Child does nothing. Hot paths use it.
func (t *Tracer) Child(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	if t == nil || !(Propagator{}).Sampled(ctx) {
		return ctx, noop.Span{}
	}
	return t.tracer.Start(ctx, name, opts...)
}

// Propagator carries the trace of a context in message headers, as W3C Trace
// Context. It costs nothing for what is not sampled.
type Propagator struct{}

var w3c propagation.TraceContext

// Sampled reports whether ctx belongs to a trace that is kept. A message of one
// that is not needs no headers.
func (Propagator) Sampled(ctx context.Context) bool {
	return trace.SpanContextFromContext(ctx).IsSampled()
}

// Inject writes the trace of ctx to h if it is sampled and h is not nil.
func (p Propagator) Inject(ctx context.Context, h nats.Header) {
	if h != nil && p.Sampled(ctx) {
		w3c.Inject(ctx, carrier(h))
	}
}

// Extract returns ctx with the trace of h, if h has one.
func (Propagator) Extract(ctx context.Context, h nats.Header) context.Context {
	if len(h["traceparent"]) == 0 {
		return ctx
	}
	return w3c.Extract(ctx, carrier(h))
}

// Traceparent returns the trace and span of ctx as W3C Trace Context writes them; empty
// for one that is not kept.
func Traceparent(ctx context.Context) string {
	h := propagation.MapCarrier{}
	if (Propagator{}).Sampled(ctx) {
		w3c.Inject(ctx, h)
	}
	return h["traceparent"]
}

// LinkTo returns a link to the span that Traceparent has written; false if it is none.
func LinkTo(traceparent string) (link trace.Link, ok bool) {
	ctx := w3c.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	link.SpanContext = trace.SpanContextFromContext(ctx)
	return link, link.SpanContext.IsValid()
}

// carrier is a NATS header; unlike HTTP's its keys keep their case, and
// Trace Context's are lower case.
type carrier nats.Header

// Get returns the first value of a key, empty without one.
func (c carrier) Get(key string) string { return nats.Header(c).Get(key) }

// Set replaces a key's values.
func (c carrier) Set(key, value string) { nats.Header(c).Set(key, value) }

// Keys returns the keys that the header has, in no order.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}

func newExporter(ctx context.Context, text string) (*otlptrace.Exporter, error) {
	e, err := parseEndpoint(text)
	if err != nil {
		return nil, err
	}
	u, err := newUploader(e)
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, u)
}

// Layer returns the attribute of a layer's spans.
func Layer(layer uint32) trace.SpanStartEventOption {
	if layer < keptLayers {
		return layers()[layer]
	}
	return layerOf(layer)
}

func layerOf(layer uint32) trace.SpanStartEventOption {
	return trace.WithAttributes(AttrLayer.Int64(int64(layer)))
}

// keptLayers have attributes that are made once: services ask for them with each message, and
// mostly nobody traces it.
const keptLayers = 128

var layers = sync.OnceValue(func() []trace.SpanStartEventOption {
	all := make([]trace.SpanStartEventOption, keptLayers)
	for i := range all {
		all[i] = layerOf(uint32(i))
	}
	return all
})

// Stalled returns the attributes of an expert's spans that say which experts the rows have waited for;
// none where they have not.
func Stalled(experts []uint32, seconds float64) trace.SpanStartEventOption {
	if len(experts) == 0 {
		return trace.WithAttributes()
	}
	ids := make([]int, len(experts))
	for i, e := range experts {
		ids[i] = int(e)
	}
	return trace.WithAttributes(AttrStalled.IntSlice(ids), AttrStall.Float64(seconds))
}

// Prefetched returns the attributes of a prefetch.
func Prefetched(expert int, probability float32, outcome string) trace.SpanStartEventOption {
	return trace.WithAttributes(AttrExpert.Int(expert), AttrProbability.Float64(float64(probability)), AttrOutcome.String(outcome))
}

// Took sets what rows took of memory, in bytes times seconds, on the span of a context.
func Took(ctx context.Context, byteSeconds []float32) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	sum := 0.0
	for _, v := range byteSeconds {
		sum += float64(v)
	}
	span.SetAttributes(AttrTook.Float64(sum / 1e9))
}

// Attempt returns the attribute of spans of work that was issued again; absent for a
// first attempt.
func Attempt(n uint32) trace.SpanStartEventOption {
	if n == 0 {
		return trace.WithAttributes()
	}
	return trace.WithAttributes(AttrAttempt.Int64(int64(n)))
}

// genAI is OpenTelemetry's semantic conventions for generative AI servers
// (gen_ai.server.*) as Prometheus names, so that dashboards made for other
// servers show this one. Buckets are the conventions' own, and beyond their last ones
// some more: a request may take --log-age's three quarters, 90 minutes by default.
// https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/
type genAI struct {
	request    *prometheus.HistogramVec
	firstToken *prometheus.HistogramVec
	perToken   *prometheus.HistogramVec
}

// genAILabels are the conventional attributes; error_type is empty for success.
var genAILabels = []string{
	"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_response_model", "error_type",
}

func newGenAI(r prometheus.Registerer) genAI {
	return genAI{
		request: genAIHistogram(r, "request_duration", "Time from acceptance to the last token of a request.",
			prometheus.ExponentialBuckets(0.01, 2, 21)),
		firstToken: genAIHistogram(r, "time_to_first_token", "Time from acceptance to the first token of a request.",
			[]float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240}),
		perToken: genAIHistogram(r, "time_per_output_token", "Mean time of a request's tokens after the first.",
			[]float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 10, 20, 40, 80}),
	}
}

func genAIHistogram(r prometheus.Registerer, name, help string, buckets []float64) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: "gen_ai_server_" + name + "_seconds", Help: help, Buckets: buckets}
	return declare(r, prometheus.NewHistogramVec(opts, genAILabels))
}

// Answer is how a request went, for the conventional metrics.
type Answer struct {
	// Operation is "chat" or "text_completion".
	Operation string
	Model     string
	// ErrorCode is empty for success.
	ErrorCode string
	// Total and FirstToken count from acceptance; FirstToken is 0 when there was none.
	Total, FirstToken time.Duration
	// Tokens made.
	Tokens int
}

// Answered observes a request that ended.
func (m *Metrics) Answered(a Answer) {
	labels := []string{a.Operation, "switchyard", a.Model, a.Model, a.ErrorCode}
	m.genAI.request.WithLabelValues(labels...).Observe(a.Total.Seconds())
	if a.FirstToken > 0 {
		m.genAI.firstToken.WithLabelValues(labels...).Observe(a.FirstToken.Seconds())
	}
	if a.Tokens > 1 && a.FirstToken > 0 {
		per := (a.Total - a.FirstToken).Seconds() / float64(a.Tokens-1)
		m.genAI.perToken.WithLabelValues(labels...).Observe(per)
	}
}
