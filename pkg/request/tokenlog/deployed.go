package tokenlog

import "github.com/switchyard/switchyard/pkg/process/deployment"

// Of returns the token logs of a deployment's model, for the replica that
// writes as id.
func Of(d *deployment.Deployment, id string) *Log {
	spec := d.Model.Spec
	return New(d.Logs, d.Streams, Settings{
		Rules:  Rules{Model: d.Identity.Model, Vocab: spec.Vocab, Positions: spec.LongestRequest(), Hidden: spec.Hidden},
		Writer: id, Passed: passedOver(d),
	})
}

// passedOver counts noise in a log, and tells of each log's first.
func passedOver(d *deployment.Deployment) func(request string, err error, first bool) {
	return func(request string, err error, first bool) {
		d.Telemetry.Metrics.LogNoise.Inc()
		if first {
			d.Logger.Warn("a message in a token log was passed over", "request", request, "error", err)
		}
	}
}
