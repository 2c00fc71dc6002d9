package train

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// Report is what was measured on held-out texts.
type Report struct {
	Methods   []string              `json:"methods"`
	Model     string                `json:"model"`
	Note      string                `json:"note"`
	Rows      int                   `json:"rows"`
	Seconds   float64               `json:"train_seconds"` // of this run
	Distances []Distance            `json:"distances"`
	Layers    []predictors.Accuracy `json:"layers"`
}

// Distance is the mean over layers of one method and distance.
type Distance struct {
	Distance int     `json:"distance"`
	Method   string  `json:"method"`
	Accuracy float64 `json:"accuracy"`
	Load     float64 `json:"load_accuracy"`
	Pearson  float64 `json:"pearson"`
	Tuned    int     `json:"tuned_layers"`
	Bytes    int64   `json:"bytes"`
	// Micros are the microseconds that predicting batchRows rows of a layer takes; 0
	// is unmeasured.
	Micros float64 `json:"predict_us"`
}

// NewReport adds memory and time to what was measured.
func NewReport(s Settings, w *predictors.Weights, took time.Duration) (*Report, error) {
	gates, err := predictors.GatesOf(s.Model)
	if err != nil {
		return nil, err
	}
	r := &Report{Methods: s.methods(), Model: s.Model.Hash, Note: w.Note, Rows: s.Recording.Rows, Seconds: took.Seconds(), Layers: w.Measured}
	for d := 1; d <= min(s.Distances, len(gates.Layers)-1); d++ {
		for _, method := range s.methods() {
			mean := meanOf(w.Measured, d, method)
			p, err := s.predictorOf(gates, w, d, method)
			if err != nil {
				return nil, err
			}
			if p != nil {
				mean.Bytes, mean.Micros = p.Bytes(), micros(p, gates)
			}
			if method == predict.MethodMoEless {
				mean.Tuned = len(w.Tuned[d])
			}
			r.Distances = append(r.Distances, mean)
		}
	}
	return r, nil
}

func meanOf(measured []predictors.Accuracy, distance int, method string) Distance {
	m := Distance{Distance: distance, Method: method}
	n := 0.0
	for _, a := range measured {
		if a.Distance == distance && a.Method == method {
			m.Accuracy, m.Load, m.Pearson = m.Accuracy+a.Accuracy, m.Load+a.Load, m.Pearson+a.Pearson
			n++
		}
	}
	if n > 0 {
		m.Accuracy, m.Load, m.Pearson = m.Accuracy/n, m.Load/n, m.Pearson/n
	}
	return m
}

// predictorOf is one of a method that is served or could be; nil for others. How
// large and how fast ProMoE's is does not depend on its weights.
func (s *Settings) predictorOf(g predict.Gates, w *predictors.Weights, distance int, method string) (predict.Predictor, error) {
	switch method {
	case predict.MethodReused:
		return predict.Reused(g, distance)
	case predict.MethodMoEless:
		return predict.LayerAware(g, distance, w.Tuned[distance])
	case predict.MethodHistory:
		return predict.NewHistory(g, distance, 0)
	}
	for _, width := range s.Networks {
		if method == methodOf(width) {
			return learned(g, distance, predict.Network{
				Width: width, W1: make([]float32, width*g.Hidden), B1: make([]float32, width), W2: make([]float32, g.Experts*width), B2: make([]float32, g.Experts),
			})
		}
	}
	return nil, nil
}

// timed is how often a prediction is made to tell its time, which is the median.
const timed = 51

// micros is what predicting a batch takes, in the slowest layer.
func micros(p predict.Predictor, g predict.Gates) (slowest float64) {
	x, load := make([]float32, batchRows*g.Hidden), make([]float64, g.Experts)
	for _, l := range g.Sources(p.Distance()) {
		var took []time.Duration
		for range timed {
			began := time.Now()
			p.Predict(l, x, batchRows, load)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		slowest = max(slowest, float64(took[timed/2].Nanoseconds())/1e3)
	}
	return slowest
}

// String is the report for people.
func (r *Report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d rows, three tenths of each domain's texts held out; trained in %.0f s\n", r.Rows, r.Seconds)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "d\tmethod\taccuracy\tload accuracy\tPearson\ttuned\tKB\tµs a layer\t")
	for _, d := range r.Distances {
		fmt.Fprintf(table, "%d\t%s\t%.3f\t%.3f\t%.3f\t%d\t%.1f\t%.0f\t\n", d.Distance, d.Method, d.Accuracy, d.Load, d.Pearson, d.Tuned, float64(d.Bytes)/1e3, d.Micros)
	}
	_ = table.Flush() // a builder takes everything
	text.WriteString("\naccuracy by target layer\n")
	for d := 1; d <= r.farthest(); d++ {
		r.writeLayers(&text, d)
	}
	return text.String()
}

func (r *Report) farthest() (d int) {
	for _, m := range r.Distances {
		d = max(d, m.Distance)
	}
	return d
}

// writeLayers writes a line for each method of a distance.
func (r *Report) writeLayers(text *strings.Builder, distance int) {
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i, method := range r.Methods {
		var layers, line strings.Builder
		for _, a := range r.Layers {
			if a.Distance == distance && a.Method == method {
				fmt.Fprintf(&layers, "%d\t", a.Layer)
				fmt.Fprintf(&line, "%.3f\t", a.Accuracy)
			}
		}
		if i == 0 {
			fmt.Fprintf(table, "d = %d\t%s\n", distance, layers.String())
		}
		fmt.Fprintf(table, "%s\t%s\n", method, line.String())
	}
	_ = table.Flush() // a builder takes everything
}
