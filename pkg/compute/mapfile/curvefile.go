package mapfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// CurveFile is what was measured, as it is kept.
type CurveFile struct {
	Format string `json:"Format"`
	Device string `json:"device"`
	How    string `json:"how"`
	Model  string `json:"model"`
	Hash   string `json:"model_hash"`
	// Bytes are those of the expert, PerCPU those of memory for which there is a processor.
	Bytes  float64      `json:"expert_bytes"`
	PerCPU float64      `json:"memory_per_cpu_bytes"`
	Cores  int          `json:"cores"`
	Points []CurvePoint `json:"points"`
	Fits   []CurveFit   `json:"fits"`
}

// CurvePoint is the time of an access.
type CurvePoint struct {
	Memory       float64 `json:"memory_bytes"`
	CPUs         float64 `json:"cpus"`
	Rows         int     `json:"rows"`
	Seconds      float64 `json:"seconds"`
	Extrapolated bool    `json:"extrapolated"`
}

// CurveFit is T(y) = θ1·exp(-θ2·y) + θ3, for y in GB, or why there is none.
type CurveFit struct {
	Rows    int     `json:"rows"`
	Theta1  float64 `json:"theta1"`
	Theta2  float64 `json:"theta2"`
	Theta3  float64 `json:"theta3"`
	R2      float64 `json:"r2"`
	Refused string  `json:"refused,omitempty"`
}

const (
	// CurvesFormat is what a file says it is.
	CurvesFormat = "switchyard-curves-1"
	mostCurves   = 16 << 20
)

// ErrCurves says that a file has no times that can be used.
var ErrCurves = errors.New("no times of an expert")

// Write puts the file at path, in place of what is there.
func (f *CurveFile) Write(path string) error {
	err := wholefile.Write(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(f)
	})
	if err != nil {
		return fmt.Errorf("writing times %s: %w", path, err)
	}
	return nil
}

// ReadCurves reads times from a file.
func ReadCurves(path string) (*cost.Speeds, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading times: %w", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	data, err := io.ReadAll(io.LimitReader(file, mostCurves))
	if err == nil {
		var s *cost.Speeds
		if s, err = ParseCurves(data); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("reading times %s: %w", path, err)
}

// ParseCurves reads times from a file's bytes.
func ParseCurves(data []byte) (*cost.Speeds, error) {
	var f CurveFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCurves, err)
	}
	if f.Format != CurvesFormat {
		return nil, fmt.Errorf("%w: the Format is %q, not %q: it is no file of switchyard profile", ErrCurves, f.Format, CurvesFormat)
	}
	var sizes []float64
	of := map[float64][]cost.Point{}
	for _, p := range f.Points {
		if len(of[p.Memory]) == 0 {
			sizes = append(sizes, p.Memory)
		}
		of[p.Memory] = append(of[p.Memory], cost.Point{Rows: p.Rows, Seconds: p.Seconds})
	}
	slices.Sort(sizes)
	var curves []*cost.Curve
	for _, size := range sizes {
		c, err := cost.NewCurve(f.Bytes, of[size])
		if err != nil {
			return nil, fmt.Errorf("%w: with %v bytes of memory: %w", ErrCurves, size, err)
		}
		curves = append(curves, c)
	}
	s, err := cost.NewSpeeds(sizes, curves)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCurves, err)
	}
	return s, nil
}
