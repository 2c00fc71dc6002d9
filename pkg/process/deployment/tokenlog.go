package deployment

import (
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
)

// TokenLog returns the model's token logs, for the replica that writes as id.
func (d *Deployment) TokenLog(id string) *tokenlog.Log {
	spec := d.Model.Spec
	return tokenlog.New(d.Conn, d.Streams, tokenlog.Settings{
		Rules:  tokenlog.Rules{Model: d.Identity.Model, Vocab: spec.Vocab, Positions: spec.MaxPositions},
		Writer: id, Passed: d.passedOver,
	})
}

// passedOver counts noise in a log, and tells of each log's first.
func (d *Deployment) passedOver(request string, err error, first bool) {
	d.Telemetry.Metrics.LogNoise.Inc()
	if first {
		d.Logger.Warn("a message in a token log was passed over", "request", request, "error", err)
	}
}
