package arena

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Method is the accuracy of a predictor at a distance, as `switchyard
// train-predictor --json` reports it.
type Method struct {
	Distance int     `json:"distance"`
	Method   string  `json:"method"`
	Accuracy float64 `json:"accuracy"`
	Load     float64 `json:"load_accuracy"`
	Pearson  float64 `json:"pearson"`
}

// What a report of predictors may have.
const (
	mostReport   = 4 << 20
	mostMethods  = 1000
	mostDistance = 64
	mostName     = 40
)

// Methods reads the accuracies of predictors from a report.
func Methods(path string) (ms []Method, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the predictors' report: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	ms, err = readMethods(f)
	if err != nil {
		return nil, fmt.Errorf("the predictors' report %s: %w", path, err)
	}
	return ms, nil
}

func readMethods(from io.Reader) ([]Method, error) {
	var report struct {
		Distances []Method `json:"distances"`
	}
	if err := json.NewDecoder(io.LimitReader(from, mostReport)).Decode(&report); err != nil {
		return nil, fmt.Errorf("it is no JSON object as train-predictor writes it: %w", err)
	}
	if n := len(report.Distances); n == 0 || n > mostMethods {
		return nil, fmt.Errorf("it has %d distances and methods; it must have 1 to %d", n, mostMethods)
	}
	for _, m := range report.Distances {
		if m.Distance < 1 || m.Distance > mostDistance || !(m.Accuracy >= 0 && m.Accuracy <= 1) || m.Method == "" || len(m.Method) > mostName {
			return nil, fmt.Errorf("it says accuracy %v of method %.40q at distance %d; accuracy must be 0 to 1, a distance 1 to %d, a name up to %d bytes",
				m.Accuracy, m.Method, m.Distance, mostDistance, mostName)
		}
	}
	return report.Distances, nil
}

// Accuracy are a method's accuracies by distance from 1, up to the first that is
// not there.
func Accuracy(ms []Method, method string) (by []float64) {
	at := map[int]float64{}
	for _, m := range ms {
		if m.Method == method {
			at[m.Distance] = m.Accuracy
		}
	}
	for d := 1; ; d++ {
		a, there := at[d]
		if !there {
			return by
		}
		by = append(by, a)
	}
}
