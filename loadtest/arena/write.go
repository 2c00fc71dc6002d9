package arena

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// Write writes the report into a folder, which is made: report.json, lines.csv,
// cdf.csv, claims.csv, intervals.csv, swings.csv and report.html.
func (r *Report) Write(folder string) error {
	return writeFiles(folder, []file{
		{"report.json", asJSON(r)}, {"lines.csv", asCSV(r.Lines)}, {"cdf.csv", table(r.cdfRows()).write},
		{"claims.csv", table(r.claimRows()).write}, {"intervals.csv", asCSV(r.Intervals)}, {"swings.csv", asCSV(r.Swings)}, {"report.html", r.writePage},
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

// asJSON writes a report whole.
func asJSON(report any) func(io.Writer) error {
	return func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(report)
	}
}

// asCSV writes a column for each field that JSON has, and a row for each line.
func asCSV[T any](lines []T) func(io.Writer) error {
	var head []string
	var fields [][]int
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && f.IsExported() && !f.Anonymous {
			head, fields = append(head, name), append(fields, f.Index)
		}
	}
	rows := table{head}
	for _, l := range lines {
		var row []string
		for _, at := range fields {
			switch v := reflect.ValueOf(l).FieldByIndex(at).Interface().(type) {
			case float64:
				row = append(row, number(v))
			default:
				row = append(row, fmt.Sprint(v))
			}
		}
		rows = append(rows, row)
	}
	return rows.write
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
