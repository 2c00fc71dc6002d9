package telemetry

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Beside returns the telemetry of a further model of t's process. It has no port of its own:
// t's pages show its metrics, under its model's label, and its health. Its spans go where t's go.
func (t *Telemetry) Beside(c Config) *Telemetry {
	c.OTLPEndpoint, c.MetricsAddr, c.PprofAddr = "", "", ""
	o := newTelemetry(prometheus.NewRegistry(), c) // what Go and the process tell, t tells
	o.processor, o.sampler, o.lent = t.processor, t.sampler, true
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beside = append(t.beside, o)
	return o
}

// all are t and what is beside it.
func (t *Telemetry) all() []*Telemetry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*Telemetry{t}, t.beside...)
}

// Page shows the metrics of all models of the process.
func (t *Telemetry) Page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from prometheus.Gatherers
		for _, one := range t.all() {
			from = append(from, one.Registry)
		}
		promhttp.HandlerFor(from, promhttp.HandlerOpts{Registry: t.Registry}).ServeHTTP(w, r)
	})
}

// askAll asks the health of all models of the process.
func (t *Telemetry) askAll(question func(Health) error) error {
	var errs []error
	for _, one := range t.all() {
		errs = append(errs, one.ask(question))
	}
	return errors.Join(errs...)
}
