package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// series are the lines of a process's metrics that begin so, as its page has them.
func series(t *testing.T, tel *Telemetry, prefix string) (lines []string) {
	t.Helper()
	_, page := get(t, "http://"+tel.Addr()+"/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestTable(t *testing.T) {
	tel := setup(t, Config{MetricsAddr: "127.0.0.1:0"})
	serve(t, tel)
	m := tel.Metrics.Members
	of := func(n float64) func() []Reading {
		return func() []Reading { return []Reading{{[]string{"gate", "ready"}, n}, {[]string{"expert", "ready"}, 1}} }
	}
	stop := m.Follow(of(2))
	m.Follow(of(1))
	check := func(want ...string) {
		t.Helper()
		if got := series(t, tel, "switchyard_members"); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check(`switchyard_members{service="expert",state="ready"} 1`, `switchyard_members{service="gate",state="ready"} 2`)
	stop()
	check(`switchyard_members{service="expert",state="ready"} 1`, `switchyard_members{service="gate",state="ready"} 1`)
}

// A process says in its metrics what /readyz says.
func TestReadyMetric(t *testing.T) {
	tel := setup(t, Config{MetricsAddr: "127.0.0.1:0"})
	serve(t, tel)
	for _, tc := range []struct {
		of   Health
		want string
	}{{nil, "0"}, {health{}, "1"}, {health{ready: errors.New("no gate")}, "0"}} {
		tel.Watch(tc.of)
		if got := series(t, tel, "switchyard_ready"); !slices.Equal(got, []string{"switchyard_ready " + tc.want}) {
			t.Errorf("%v: %q", tc.of, got)
		}
	}
}

// What is not known is not told.
func TestUp(t *testing.T) {
	for want, of := range map[string][2]bool{"[{[write] 1}]": {true, true}, "[{[write] 0}]": {false, true}, "[]": {true, false}} {
		if got := fmt.Sprint(Up("write", func() (bool, bool) { return of[0], of[1] })()); got != want {
			t.Errorf("%v: %s", of, got)
		}
	}
}

// Metrics that grow with the model's layers and experts can be told together.
func TestDetail(t *testing.T) {
	for detail, want := range map[Detail]struct {
		rows, stages int
		cv           bool
		first        string
	}{
		"":       {6, 2, true, `switchyard_expert_rows_total{expert="0",layer="0"} 1`},
		ByExpert: {6, 2, true, `switchyard_expert_rows_total{expert="0",layer="0"} 1`},
		ByLayer:  {2, 2, true, `switchyard_expert_rows_total{expert="all",layer="0"} 3`},
		InAll:    {1, 1, false, `switchyard_expert_rows_total{expert="all",layer="all"} 6`},
	} {
		tel := setup(t, Config{MetricsAddr: "127.0.0.1:0", Detail: detail})
		serve(t, tel)
		m := tel.Metrics
		m.Scaler.CV.Follow(func() map[string]float64 { return map[string]float64{"0": 0.1, "1": 0.2} })
		for layer := range 2 {
			m.LayerStages(layer, []string{"gate"})[0].Observe(0.01)
			for expert := range 3 {
				m.ExpertRows(layer, expert).Inc()
			}
		}
		rows := series(t, tel, "switchyard_expert_rows_total")
		stages := series(t, tel, "switchyard_layer_stage_seconds_count")
		cv := series(t, tel, "switchyard_layer_replica_cv_ratio")
		if len(rows) != want.rows || len(stages) != want.stages || (len(cv) > 0) != want.cv || rows[0] != want.first {
			t.Errorf("%q: %q, %q, %q", detail, rows, stages, cv)
		}
	}
	if err := (Config{Detail: "row"}).Validate(); err == nil || !strings.Contains(err.Error(), "--metrics-detail") {
		t.Errorf("%v", err)
	}
}

// Whatever may last long can be told apart from what lasts longer: requests for as long
// as they may take by default, 90 minutes, and what they wait for.
func TestLongTimesAreResolved(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	longest := func(c prometheus.Collector) (bound float64) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range families[0].Metric[0].GetHistogram().Bucket {
			bound = max(bound, b.GetUpperBound())
		}
		return bound
	}
	m.Answered(Answer{Operation: "chat", Model: "demo", Total: time.Hour, FirstToken: time.Minute, Tokens: 9})
	request := (90 * time.Minute).Seconds()
	for name, tc := range map[string]struct {
		of    prometheus.Collector
		least float64
	}{
		"requests": {m.genAI.request, request}, "first tokens": {m.genAI.firstToken, request}, "tokens": {m.genAI.perToken, 60},
		"waiting": {m.waits.queue, request}, "canaries": {m.waits.canary, 60}, "steps": {m.stepDuration, 60}, "layers": {m.layerHop, 60},
	} {
		if got := longest(tc.of); got < tc.least {
			t.Errorf("%s: the last bucket ends at %v s", name, got)
		}
	}
}
