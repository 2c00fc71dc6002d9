package telemetry

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

// The pages of a process tell of all its models.
func TestBeside(t *testing.T) {
	first, err := Setup(t.Context(), Config{ServiceName: "test", Model: "a"})
	if err != nil {
		t.Fatal(err)
	}
	second := first.Beside(Config{ServiceName: "test", Model: "b", MetricsAddr: "256.0.0.1:1"})
	second.Metrics.Panics.Inc()
	first.Watch(health{})
	page := func(path string) string {
		w := httptest.NewRecorder()
		first.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		return w.Result().Status + "\n" + w.Body.String()
	}
	if got := page("/readyz"); !strings.HasPrefix(got, "503") {
		t.Errorf("the second is not ready: %s", got)
	}
	second.Watch(health{ready: errors.New("b lacks a gate")})
	if got := page("/readyz"); !strings.Contains(got, "b lacks a gate") {
		t.Errorf("%s", got)
	}
	second.Watch(health{})
	if got := page("/readyz"); !strings.HasPrefix(got, "200") {
		t.Errorf("%s", got)
	}
	metrics := page("/metrics")
	for _, want := range []string{`switchyard_ready{model="a"} 1`, `switchyard_ready{model="b"} 1`, `switchyard_panics_total{model="a"} 0`, `switchyard_panics_total{model="b"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%.2000s", want, metrics)
		}
	}
	if err := errors.Join(second.Close(), first.Close()); err != nil {
		t.Error(err)
	}
}
