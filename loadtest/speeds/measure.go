package speeds

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
)

// Settings say what is measured.
type Settings struct {
	Model  *model.Model
	Memory []float64 // bytes, ascending
	PerCPU float64   // bytes for which there is one processor
	Rows   []int     // of an access, ascending
	// Cores are those of this machine.
	Cores int
	// Time is how long each point is measured, at least.
	Time time.Duration
	// Progress hears what is going on.
	Progress func(format string, args ...any)
}

// gb is a platform's gigabyte.
const gb = 1 << 30

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	switch {
	case len(s.Memory) == 0 || !ascending(s.Memory) || !(s.Memory[0] > 0):
		return errors.New("memory sizes must be above 0 and ascend; name them as 200:2000:100")
	case !(s.PerCPU > 0) || math.IsInf(s.PerCPU, 0):
		return fmt.Errorf("a processor has %v bytes of memory; it must be above 0", s.PerCPU)
	case s.Memory[0]/s.PerCPU < leastCPUs:
		return fmt.Errorf("%.0f MB have %.2g of a processor; a size must have %v or more", s.Memory[0]/(1<<20), s.Memory[0]/s.PerCPU, leastCPUs)
	case len(s.Rows) == 0 || !slices.IsSorted(s.Rows) || len(slices.Compact(slices.Clone(s.Rows))) != len(s.Rows) || s.Rows[0] < 1 || s.Rows[len(s.Rows)-1] > mostRows:
		return fmt.Errorf("rows are %v; they must be 1 to %d, and ascend", s.Rows, mostRows)
	case s.Cores < 1 || s.Time < 0:
		return fmt.Errorf("%d processors for %v each; there must be 1 or more", s.Cores, s.Time)
	case s.Model.Spec.MoELayers() == 0:
		return errors.New("the model has no layers with experts; name another one")
	}
	return nil
}

const (
	mostRows  = 1 << 13
	leastCPUs = 0.01
)

func ascending(all []float64) bool {
	for i := 1; i < len(all); i++ {
		if !(all[i] > all[i-1]) {
			return false
		}
	}
	return true
}

// Measure times an expert with each size and number of rows.
func Measure(ctx context.Context, s Settings) (*mapfile.CurveFile, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	f := &mapfile.CurveFile{
		Format: mapfile.CurvesFormat, Device: "cpu", How: "a quota of processors' time inside one process", Model: s.Model.Name, Hash: s.Model.Hash, Cores: s.Cores, PerCPU: s.PerCPU,
	}
	for _, memory := range s.Memory {
		cpus := memory / s.PerCPU
		if cpus > float64(s.Cores) {
			for _, rows := range s.Rows {
				f.Points = append(f.Points, mapfile.CurvePoint{Memory: memory, CPUs: cpus, Rows: rows, Extrapolated: true})
			}
			continue
		}
		s.Progress("%.0f MB: %.2f processors…", memory/(1<<20), cpus)
		if err := s.points(ctx, f, memory, cpus); err != nil {
			return nil, err
		}
	}
	return f, fit(f, s.Rows)
}

// points measures a size with as many threads as there are begun processors.
func (s *Settings) points(ctx context.Context, f *mapfile.CurveFile, memory, cpus float64) error {
	threads := int(math.Ceil(cpus))
	p := pool.New(threads)
	defer p.Close()
	on := device.NewCPU(s.Model, p, device.Settings{})
	defer on.Close()
	c, err := s.access(ctx, on)
	if err != nil {
		return err
	}
	f.Bytes = float64(c.bytes)
	for _, rows := range s.Rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		seconds, err := c.mean(rows, newQuota(cpus, threads), max(s.Time, 4*period))
		if err != nil {
			return err
		}
		f.Points = append(f.Points, mapfile.CurvePoint{Memory: memory, CPUs: cpus, Rows: rows, Seconds: seconds})
	}
	return nil
}

// access calls experts of a layer, one after the other, so that weights are not always those of before.
type access struct {
	on      device.Device
	layer   int
	experts int
	hidden  int
	bytes   int64
	next    int
}

func (s *Settings) access(ctx context.Context, on device.Device) (*access, error) {
	spec := &s.Model.Spec
	a := &access{on: on, hidden: spec.Hidden, experts: spec.Experts}
	a.layer = slices.IndexFunc(spec.Layer, func(l model.LayerSpec) bool { return l.MoE })
	var err error
	for e := range a.experts {
		id := forward.ExpertID{Layer: a.layer, Expert: e}
		t := on.Load(ctx, id, 0)
		<-t.Done()
		if err := t.Err(); err != nil {
			return nil, fmt.Errorf("loading expert %d: %w", e, err)
		}
	}
	a.bytes, err = on.Size(forward.ExpertID{Layer: a.layer})
	return a, err
}

// mean is the mean time of an access in at least such a time.
func (a *access) mean(rows int, q *quota, least time.Duration) (float64, error) {
	r := rand.New(rand.NewPCG(1, uint64(rows)))
	in := forward.Routed{Layer: a.layer, X: make([]float32, rows*a.hidden)}
	for i := range in.X {
		in.X[i] = float32(r.NormFloat64())
	}
	in.Source, in.Expert, in.Weight = make([]uint32, rows), make([]uint32, rows), make([]float32, rows)
	for i := range rows {
		in.Source[i], in.Weight[i] = uint32(i), 1
	}
	out, scratch := make([]float32, rows*a.hidden), forward.ExpertScratch{}
	once := func() error {
		a.next = (a.next + 1) % a.experts
		for i := range in.Expert {
			in.Expert[i] = uint32(a.next)
		}
		return a.on.Compute(in, out, &scratch)
	}
	for warm := time.Now(); time.Since(warm) < period; { // the first period ends, and caches fill
		if err := q.call(once); err != nil {
			return 0, err
		}
	}
	n, began := 0, time.Now()
	for ; n == 0 || time.Since(began) < least; n++ {
		if err := q.call(once); err != nil {
			return 0, err
		}
	}
	return time.Since(began).Seconds() / float64(n), nil
}

// fit fits each number of rows' curve to what was measured, and fills in what was not: by the fit, and
// where there is none as the last size that was measured.
func fit(f *mapfile.CurveFile, rows []int) error {
	for _, n := range rows {
		memory, seconds := measured(f, n)
		if len(memory) == 0 {
			return fmt.Errorf("every size has more processors than this machine's %d; name smaller ones", f.Cores)
		}
		curve, err := remoe.FitTimes(memory, seconds)
		fill(f, n, seconds[len(seconds)-1], curve, err)
		if err != nil {
			f.Fits = append(f.Fits, mapfile.CurveFit{Rows: n, Refused: err.Error()})
			continue
		}
		f.Fits = append(f.Fits, mapfile.CurveFit{Rows: n, Theta1: curve.Theta1, Theta2: curve.Theta2, Theta3: curve.Theta3, R2: curve.R2})
	}
	return nil
}

// measured are the times of accesses of so many rows, by GB.
func measured(f *mapfile.CurveFile, rows int) (memory, seconds []float64) {
	for _, p := range f.Points {
		if p.Rows == rows && !p.Extrapolated {
			memory, seconds = append(memory, p.Memory/gb), append(seconds, p.Seconds)
		}
	}
	return memory, seconds
}

// fill extrapolates; an error says that there is no curve.
func fill(f *mapfile.CurveFile, rows int, last float64, curve remoe.Fit, err error) {
	for i := range f.Points {
		p := &f.Points[i]
		if p.Rows != rows || !p.Extrapolated {
			continue
		}
		if p.Seconds = last; err == nil {
			p.Seconds = min(last, curve.At(p.Memory/gb))
		}
	}
}
