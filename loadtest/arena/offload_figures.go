package arena

import (
	"html/template"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// OffloadEntropy is how uneven a request's experts are after so many generated rows, in bits: in the
// mean over requests and layers, the entropy of the mean of their gates' probabilities (figures 3b
// and 3c: the first is of a step, the last of a request).
type OffloadEntropy struct {
	Shape   string  `json:"shape"`
	Routing string  `json:"routing"`
	Seed    uint64  `json:"seed"`
	Rows    int     `json:"rows"`
	Bits    float64 `json:"bits"`
}

// entropies are those of a traffic.
func entropies(t offload.Traffic) (bits []float64) {
	sums, n := []float64(nil), []float64(nil)
	for _, text := range t.Served {
		mean := make([]float64, t.Layers*t.Experts)
		for i := range text.N - text.Prompt {
			for j, p := range text.Map(text.Prompt + i) {
				mean[j] += float64(p)
			}
			if i == len(sums) {
				sums, n = append(sums, 0), append(n, 0)
			}
			for l := range t.Layers {
				sums[i] += entropyOf(mean[l*t.Experts:(l+1)*t.Experts], float64(i+1))
				n[i]++
			}
		}
	}
	for i := range sums {
		bits = append(bits, sums[i]/n[i])
	}
	return bits
}

// entropyOf is that of parts of a sum, in bits.
func entropyOf(parts []float64, sum float64) (bits float64) {
	for _, p := range parts {
		if p > 0 {
			bits -= p / sum * math.Log2(p/sum)
		}
	}
	return bits
}

// across are the figures with all shapes in one.
func (r *OffloadReport) across() ([]figure, error) {
	return drawn([]func() (figure, error){
		r.unevenness, r.correlations,
		func() (figure, error) {
			return r.grouped(partPatterns, hits.of, "hits by what tracks patterns", "part", "Hits by what tracks patterns, with fMoE's order (figure 12a).")
		},
		func() (figure, error) {
			return r.grouped(partOrders, hits.of, "hits by the order of eviction", "part", "Hits by the order of eviction, with fMoE's maps (figure 12b).")
		},
		r.breakdown, r.memory,
	})
}

// unevenness is figure 3c, whose ends are 3b.
func (r *OffloadReport) unevenness() (figure, error) {
	sums := map[string]map[int][2]float64{}
	var names []string
	most := 0
	for _, e := range r.Entropies {
		if sums[e.Shape] == nil {
			sums[e.Shape] = map[int][2]float64{}
			names = append(names, e.Shape)
		}
		s := sums[e.Shape][e.Rows]
		sums[e.Shape][e.Rows] = [2]float64{s[0] + e.Bits, s[1] + 1}
		most = max(most, e.Rows)
	}
	var all []series
	for _, name := range names {
		s := series{name: name}
		for rows := 1; rows <= most; rows++ {
			if of := sums[name][rows]; of[1] > 0 {
				s.points = append(s.points, plotter.XY{X: float64(rows), Y: of[0] / of[1]})
			}
		}
		all = append(all, s)
	}
	return plotted(all, "Entropy of a request's experts after so many steps, in the mean of its layers: the first is of one step, the last of the request (figures 3b, 3c).",
		func() (template.HTML, error) {
			return lines(axes{"entropy by steps that are added up", "steps", "bits", false}, all)
		})
}

// correlations is figure 8.
func (r *OffloadReport) correlations() (figure, error) {
	of := map[string]*OffloadLine{}
	var shapes []string
	for i := range r.Lines {
		if l := &r.Lines[i]; l.Part == partCapacity && l.Value <= float64(r.Capacity) {
			if of[l.Shape] == nil {
				shapes = append(shapes, l.Shape)
			}
			of[l.Shape] = l // the largest store
		}
	}
	trajectory, semantic := series{name: "trajectory"}, series{name: "semantic"}
	for i, shape := range shapes {
		trajectory.points = append(trajectory.points, plotter.XY{X: float64(i), Y: of[shape].Pearson})
		semantic.points = append(semantic.points, plotter.XY{X: float64(i), Y: of[shape].PearsonSemantic})
	}
	if len(shapes) == 0 {
		return figure{}, nil
	}
	return plotted([]series{semantic, trajectory}, "Correlation (Pearson) of a map's score and of how many of a row's experts it names (figure 8).",
		func() (template.HTML, error) {
			return bars("score and what is right", "Pearson", shapes, []series{semantic, trajectory})
		})
}

// grouped are a part's policies as bars, a group for each shape.
func (r *OffloadReport) grouped(part string, of func(*OffloadLine) float64, title, y, words string) (figure, error) {
	var shapes, policies []string
	at := map[[2]string][]*OffloadLine{}
	for i := range r.Lines {
		l := &r.Lines[i]
		if l.Part != part || l.Budget != r.Middle || l.Routing != routingFitted && l.Routing != routingRecorded {
			continue
		}
		if !slices.Contains(shapes, l.Shape) {
			shapes = append(shapes, l.Shape)
		}
		if !slices.Contains(policies, l.Policy) {
			policies = append(policies, l.Policy)
		}
		key := [2]string{l.Shape, l.Policy}
		at[key] = append(at[key], l)
	}
	var all []series
	for _, policy := range policies {
		s := series{name: policy}
		for i, shape := range shapes {
			s.points = append(s.points, plotter.XY{X: float64(i), Y: meanOf(at[[2]string{shape, policy}], of)})
		}
		all = append(all, s)
	}
	return plotted(all, words, func() (template.HTML, error) { return bars(title, y, shapes, all) })
}

// breakdown is figure 15: a decode step of the paper's policy and of ours.
func (r *OffloadReport) breakdown() (figure, error) {
	parts := []struct {
		name string
		of   func(*OffloadLine) float64
	}{
		{"computing", func(l *OffloadLine) float64 { return l.TPOT - l.Stall }},
		{"waiting for experts", func(l *OffloadLine) float64 { return l.Stall }},
		{"links moving, beside it", func(l *OffloadLine) float64 { return l.Links }},
		{"predicting, beside it", func(l *OffloadLine) float64 { return l.Predicting }},
	}
	all := make([]series, len(parts))
	var groups []string
	for _, at := range r.places() {
		if at.routing != routingFitted && at.routing != routingRecorded {
			continue
		}
		for _, policy := range []string{offload.FMoE, offload.Ours} {
			named := r.named(at, policy, r.Middle)
			for i, part := range parts {
				all[i].name = part.name
				all[i].points = append(all[i].points, plotter.XY{X: float64(len(groups)), Y: meanOf(named, part.of)})
			}
			groups = append(groups, short(at.shape)+" "+policy)
		}
	}
	if len(groups) == 0 {
		return figure{}, nil
	}
	return plotted(all, "Where a decode step's time goes, and what goes on beside it: of links the mean of all, of predictions those of all layers one after the other (figure 15).",
		func() (template.HTML, error) { return bars("a decode step", "ms", groups, all) })
}

// short is what a shape's name begins with.
func short(name string) string {
	for i, c := range name {
		if c == '-' || c >= '0' && c <= '9' {
			return name[:i]
		}
	}
	return name
}

// memory is figure 16: what stores take, embeddings included.
func (r *OffloadReport) memory() (figure, error) {
	var all []series
	for _, name := range offload.Models() {
		m, err := offload.Open(name)
		if err != nil {
			return figure{}, err
		}
		for _, of := range []struct {
			name             string
			maps, embeddings expertmap.Format
		}{{"f32", expertmap.F32, expertmap.F32}, {"bf16, fp8", expertmap.BF16, expertmap.FP8}} {
			s := series{name: short(name) + " " + of.name}
			for maps := 1000; maps <= 32000; maps *= 2 {
				set := expertmap.Settings{Shape: expertmap.Shape{Layers: m.Layers, Experts: m.Experts, TopK: m.TopK, Embedding: m.Hidden}, Capacity: maps, Maps: of.maps, Embeddings: of.embeddings}
				s.points = append(s.points, plotter.XY{X: float64(maps), Y: float64(set.Bytes(maps)) / 1e6})
			}
			all = append(all, s)
		}
	}
	return plotted(all, "Memory of a store by its maps, with their embeddings (figure 16).", func() (template.HTML, error) {
		return lines(axes{"memory of stores", "maps", "MB", false}, all)
	})
}
