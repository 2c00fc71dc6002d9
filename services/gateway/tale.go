package gateway

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// tale is what metrics and traces tell of a request.
type tale struct {
	ctx   context.Context
	span  trace.Span
	began time.Time
	model string
	told  *telemetry.GatewayMetrics
	line  *accessLine
	first time.Duration // 0: no token has come

	prompt, completion int32
	finish             string
	left               bool // the client left
	failed             *openai.Error
}

// Attributes of OpenTelemetry's conventions for generative AI, as of version 1.37.
const (
	genAIOperation = attribute.Key("gen_ai.operation.name")
	genAIProvider  = attribute.Key("gen_ai.provider.name")
	genAIRequested = attribute.Key("gen_ai.request.model")
	genAIAnswered  = attribute.Key("gen_ai.response.model")
	genAIResponse  = attribute.Key("gen_ai.response.id")
	genAIFinish    = attribute.Key("gen_ai.response.finish_reasons")
	genAIInput     = attribute.Key("gen_ai.usage.input_tokens")
	genAIOutput    = attribute.Key("gen_ai.usage.output_tokens")
	errorType      = attribute.Key("error.type")
)

// watch begins the tale of a request.
func (d *Door) watch(ctx context.Context, c *call, m upstream.Model, operation, requested string) *tale {
	t := &tale{began: time.Now(), model: m.Name, told: d.metrics, line: lineOf(c.w)}
	t.ctx, t.span = d.tracer.Start(ctx, operation+" "+m.Name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		genAIOperation.String(operation), genAIProvider.String("switchyard"), genAIRequested.String(requested), genAIAnswered.String(m.Name),
		genAIResponse.String(c.id), telemetry.AttrRequest.String(c.id)))
	return t
}

// chunk notes a chunk of an answer.
func (t *tale) chunk(c *pb.Chunk) {
	if t == nil {
		return
	}
	if t.first == 0 && len(c.TokenIds) > 0 {
		t.first = time.Since(t.began)
	}
	if c.FinishReason != "" {
		t.finish = c.FinishReason
		t.line.count(c)
		t.prompt += c.GetUsage().GetPromptTokens()
		t.completion += c.GetUsage().GetCompletionTokens()
	}
}

// end ends the tale; err is nil where the answer was told, whole or up to a failure.
func (t *tale) end(err *openai.Error) {
	if err == nil {
		err = t.failed
	}
	t.span.SetAttributes(genAIInput.Int(int(t.prompt)), genAIOutput.Int(int(t.completion)), genAIFinish.StringSlice([]string{t.finish}))
	t.line.First = seconds(t.first)
	if err != nil {
		t.line.Code = err.Code
		t.span.SetAttributes(errorType.String(err.Code))
		t.span.SetStatus(codes.Error, err.Code)
	}
	t.span.End()
	a := telemetry.GatewayAnswer{Model: t.model, Finish: t.finish, Total: time.Since(t.began), First: t.first, Prompt: t.prompt, Generated: t.completion}
	if err != nil || t.left {
		a.Finish = ""
	}
	t.told.Answered(a)
}

// leave notes that the client left.
func (t *tale) leave() {
	if t != nil {
		t.left = true
	}
}

// ended ends the tale of a request, and returns what its client gets if nothing was sent yet.
func (d *Door) ended(ctx context.Context, t *tale, m upstream.Model, err error) error {
	if err == nil {
		t.end(nil)
		return nil
	}
	e := d.refusal(ctx, err, m.Context)
	t.end(e)
	return e
}
