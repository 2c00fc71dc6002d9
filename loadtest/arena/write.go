package arena

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Write writes the report into a folder, which is made: report.json, lines.csv,
// cdf.csv, claims.csv, intervals.csv, swings.csv and report.html.
func (r *Report) Write(folder string) error {
	return writeFiles(folder, []file{
		{"report.json", r.writeJSON}, {"lines.csv", table(r.lineRows()).write}, {"cdf.csv", table(r.cdfRows()).write},
		{"claims.csv", table(r.claimRows()).write}, {"intervals.csv", table(r.intervalRows()).write}, {"swings.csv", table(r.swingRows()).write}, {"report.html", r.writePage},
	})
}

// file is one of a report's.
type file struct {
	name  string
	write func(io.Writer) error
}

func writeFiles(folder string, all []file) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the report's folder: %w", err)
	}
	for _, f := range all {
		if err := writeFile(filepath.Join(folder, f.name), f.write); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return write(f)
}

func (r *Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// table is a CSV file.
type table [][]string

func (t table) write(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.WriteAll(t); err != nil {
		return err
	}
	return c.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func (r *Report) lineRows() [][]string {
	rows := [][]string{{
		"part", "shape", "routing", "policy", "value", "layer_ms_mean", "layer_ms_p50", "layer_ms_p99", "layer_ms_mean_by_replica",
		"cost_gb_s", "cost_resident_gb_s", "replicas_mean", "cold_starts", "cold_waits", "tokens", "elapsed_s", "device", "constant",
	}}
	for _, l := range r.Lines {
		rows = append(rows, []string{
			l.Part, l.Shape, l.Routing, l.Policy, number(l.Value), number(l.Mean), number(l.P50), number(l.P99), number(l.ByReplica),
			number(l.Cost), number(l.Resident), number(l.Replicas), strconv.Itoa(l.ColdStarts), strconv.Itoa(l.Waits), strconv.Itoa(l.Tokens), number(l.Elapsed), l.Device, l.Constant,
		})
	}
	return rows
}

func (r *Report) cdfRows() [][]string {
	rows := [][]string{{"shape", "policy", "share", "layer_ms"}}
	for _, l := range r.MainLines() {
		for i, ms := range l.CDF {
			rows = append(rows, []string{l.Shape, l.Policy, number(float64(i) / cdfSteps), number(ms)})
		}
	}
	return rows
}

func (r *Report) claimRows() [][]string {
	rows := [][]string{{"part", "routing", "shape", "policy", "what", "against", "change", "paper", "low", "high", "verdict"}}
	for _, c := range r.Claims {
		low, high := "", ""
		if c.Over != nil {
			low, high = number(c.Over.Low), number(c.Over.High)
		}
		rows = append(rows, []string{c.Part, c.Routing, c.Shape, c.Policy, c.What, c.Against, number(c.Change), number(c.Paper), low, high, string(c.Verdict)})
	}
	return rows
}
