package arena

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/record"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// demoRecorded is the demo model, and a recording of it with its gates' inputs.
func demoRecorded(t *testing.T) (*model.Model, *Recorded) {
	t.Helper()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := Record(recorded(t, m, true), m)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

// recorded is a recording of the demo model on few texts.
func recorded(t *testing.T, m *model.Model, inputs bool) string {
	t.Helper()
	dir := t.TempDir()
	var texts []string
	for name, text := range map[string]string{"story": "Once upon a time there was a little cat.", "code": "func main() { if err != nil { return err } }"} {
		var all []string
		for i := range 8 {
			all = append(all, strings.Repeat(text+" ", i+1))
		}
		path := filepath.Join(dir, name+".txt")
		if err := os.WriteFile(path, []byte(strings.Join(all, "\n<|endoftext|>\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, path)
	}
	p := pool.New(1)
	defer p.Close()
	path := filepath.Join(dir, "r.st")
	s := record.Settings{
		Model: m, Pool: p, Texts: texts, Tokens: 200, PromptTokens: 12, AnswerTokens: 16, Wire: tensor.BF16, Seed: 1, Inputs: inputs,
		Progress: func(string, ...any) {},
	}
	if _, err := record.Run(t.Context(), s, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// What the demo model's gates said on texts is served as synthetic rows are, and rows that are
// recorded correlate.
func TestOffloadRecorded(t *testing.T) {
	if testkit.Race {
		t.Skip("TestOffload computes side by side in the same way")
	}
	t.Parallel()
	m, r := demoRecorded(t)
	fit, figures, err := r.Fit()
	if err != nil || fit.Check() != nil || figures.Token < 0.3 || figures.Ahead < 0.5 {
		t.Errorf("%+v, %+v, %v", fit, figures, err)
	}
	s := offloadSettings()
	s.Shapes, s.Budgets = nil, []float64{12}
	if s.Recorded, err = r.Traffics(s.Texts, 1, 2); err != nil {
		t.Fatal(err)
	}
	report, err := RunOffload(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range report.Lines {
		if l.Shape != "demo" || l.Routing != routingRecorded || l.Policy == offload.Limit && l.Recall != 1 {
			t.Errorf("%+v", l)
		}
	}
	for _, text := range r.texts { // the gates' choices are those that were recorded
		if text.Prompt < 1 || text.N <= text.Prompt {
			t.Errorf("%d rows, %d of a prompt", text.N, text.Prompt)
		}
	}
	if _, err := Record(recorded(t, m, false), m); err == nil || !strings.Contains(err.Error(), "without the gates' inputs") {
		t.Errorf("%v", err)
	}
}
