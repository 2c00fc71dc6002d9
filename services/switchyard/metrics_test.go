package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// metricPages are what docs say of metrics, in one text.
func metricPages(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"operations/watch.md", "operations/metrics.md", "operations/metrics-compute.md", "operations/offload.md", "operations/brownout.md", "timings.md", "cuda.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// rules are deploy/alerts.yaml.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// watched are the expressions of the alerts and of the dashboard that operators are given.
func watched(t *testing.T) (expressions []string) {
	t.Helper()
	alerts, dashboard := rules{}, struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}{}
	for path, into := range map[string]any{"alerts.yaml": &alerts, "dashboard.json": &dashboard} {
		data, err := os.ReadFile("../../deploy/" + path)
		if err == nil {
			err = yaml.Unmarshal(data, into) // JSON is YAML
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	says := metricPages(t)
	for _, r := range alerts.Groups[0].Rules {
		name, ours := strings.CutPrefix(r.Alert, "Switchyard")
		summary := r.Annotations["summary"][strings.LastIndex(r.Annotations["summary"], "}}: ")+1:]
		summary = strings.TrimPrefix(summary, "}: ")
		if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/operations/watch.md#what-to-page-on") {
			t.Errorf("alert %s has no runbook", r.Alert)
		}
		for _, label := range []string{"model", "instance"} { // what the expression keeps apart the summary names
			if strings.Contains(r.Expr, "by ("+label) && !strings.Contains(r.Annotations["summary"], "$labels."+label) {
				t.Errorf("alert %s does not name its %s", r.Alert, label)
			}
		}
		if !ours || !strings.Contains(says, "| `"+name+"` | "+summary+" | ") || !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
			t.Errorf("alert %s (%s, %s) is not in watch.md as it is", r.Alert, r.Annotations["summary"], r.Labels["severity"])
		}
		expressions = append(expressions, r.Expr)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			expressions = append(expressions, strings.ReplaceAll(target.Expr, "$model", ".*"))
		}
	}
	if len(expressions) < 30 {
		t.Fatalf("%d expressions: %q", len(expressions), expressions)
	}
	return expressions
}

// selector is a metric of an expression, with what it wants of labels.
var (
	selector = regexp.MustCompile(`\b(?:switchyard|gen_ai)_\w+(?:\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`)
)

// One cause pages once: what follows from NATS that is away, and from a stage that is missing, is inhibited, and all that
// is named there is an alert.
func TestInhibitions(t *testing.T) {
	var alerts rules
	var manager struct {
		Inhibit []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
		} `yaml:"inhibit_rules"`
	}
	for path, into := range map[string]any{"alerts.yaml": &alerts, "alertmanager.yaml": &manager} {
		data, err := os.ReadFile("../../deploy/" + path)
		if err == nil {
			err = yaml.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	is := func(matchers []string, alert string) bool {
		_, want, _ := strings.Cut(matchers[0], `"`)
		return regexp.MustCompile("^(?:" + strings.TrimSuffix(want, `"`) + ")$").MatchString(alert)
	}
	left := map[string][]string{} // pages that each cause leaves
	for _, r := range alerts.Groups[0].Rules {
		for _, cause := range []string{"SwitchyardNatsAway", "SwitchyardStorage", "SwitchyardStageDown"} {
			inhibited := r.Alert == cause
			for _, rule := range manager.Inhibit {
				inhibited = inhibited || is(rule.Source, cause) && is(rule.Target, r.Alert)
			}
			if !inhibited && r.Labels["severity"] == "page" {
				left[cause] = append(left[cause], r.Alert)
			}
		}
	}
	for cause, want := range map[string]string{
		"SwitchyardNatsAway":  "Crashes ExpertMemory ProcessGone StreamFull",
		"SwitchyardStorage":   "Crashes ExpertMemory NatsAway ProcessGone StreamFull",
		"SwitchyardStageDown": "Crashes ExpertMemory NatsAway NoTokenizer ProcessGone Storage StreamFull",
	} {
		got := strings.Join(slices.Sorted(slices.Values(left[cause])), " ")
		if got = strings.ReplaceAll(got, "Switchyard", ""); got != want {
			t.Errorf("beside %s these page: %s, want %s", cause, got, want)
		}
	}
}

// matches reports whether a line of metrics is what a selector selects.
func matches(line, selector string) bool {
	name, labels, _ := strings.Cut(selector, "{")
	series, of, _ := strings.Cut(line, "{")
	if series, _, _ = strings.Cut(series, " "); series != name {
		return false
	}
	for _, m := range matcher.FindAllStringSubmatch(labels, -1) {
		if !regexp.MustCompile(`[{,]` + m[1] + `="(?:` + m[3] + `)"`).MatchString("{" + of) {
			return false
		}
	}
	return true
}

// startMeasured runs everything that has metrics in one process, and asks it once.
func startMeasured(t *testing.T, more ...string) *probed {
	t.Helper()
	listen := testkit.FreeAddr(t)
	args := append([]string{"--listen", listen, "--http", "off", "--scaling", "moeless", "--tenant", "acme:waiting=9,tokens=9000,log=1MiB", "--canary-every", "100ms"}, more...)
	p := startProbed(t, "up", "nats://"+listen, args...)
	p.await(t, 200, "ready")
	if got := invoke("", "--nats", "nats://"+listen, "prompt", "--max-tokens", "3", "Once"); got.Code != cli.ExitDone {
		t.Fatalf("%+v", got)
	}
	return p
}

// What operators' alerts and dashboard ask for is there, with the labels that are named.
func TestWatchedIsMeasured(t *testing.T) {
	t.Parallel()
	p := startMeasured(t)
	for _, expression := range watched(t) {
		wanted := selector.FindAllString(expression, -1)
		if len(wanted) == 0 && !strings.HasPrefix(expression, "up{") { // Prometheus' own
			t.Errorf("%s has no metric", expression)
		}
		for _, s := range wanted {
			testkit.Eventually(t, s, func() bool {
				_, page := p.get(t, "/metrics")
				return slices.ContainsFunc(strings.Split(page, "\n"), func(line string) bool { return matches(line, s) })
			})
		}
	}
}

// Every metric is in a page that operators read.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("TestWatchedIsMeasured has all of its goroutines")
	}
	p := startMeasured(t)
	_, page := p.get(t, "/metrics")
	says := metricPages(t)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (switchyard_\w+) `).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(says, "`"+m[1]) {
			t.Errorf("%s is in no page of the documentation", m[1])
		}
	}
	if strings.Contains(page, `switchyard_expert_rows_total{expert="all"`) {
		t.Error("experts are told together though nobody asked for that")
	}
}

// Metrics that grow with the model can be thinned.
func TestMetricsDetail(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("TestWatchedIsMeasured has all of its goroutines")
	}
	p := startMeasured(t, "--metrics-detail", "total")
	page := ""
	for _, want := range []string{`switchyard_expert_rows_total{expert="all",layer="all",model="demo"} `, `switchyard_layer_stage_seconds_count{layer="all",`} {
		testkit.Eventually(t, want, func() bool { _, page = p.get(t, "/metrics"); return strings.Contains(page, want) })
	}
	if i := strings.Index(page, `layer="0"`); i >= 0 {
		t.Errorf("a layer is told apart: %.200s", page[max(0, i-100):])
	}
}
