package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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

func newGenAI() genAI {
	return genAI{
		request: genAIHistogram("request_duration", "Time from acceptance to the last token of a request.",
			prometheus.ExponentialBuckets(0.01, 2, 21)),
		firstToken: genAIHistogram("time_to_first_token", "Time from acceptance to the first token of a request.",
			[]float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240}),
		perToken: genAIHistogram("time_per_output_token", "Mean time of a request's tokens after the first.",
			[]float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 10, 20, 40, 80}),
	}
}

func genAIHistogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: "gen_ai_server_" + name + "_seconds", Help: help, Buckets: buckets}
	return prometheus.NewHistogramVec(opts, genAILabels)
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
