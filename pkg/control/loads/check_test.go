package loads

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// steps is a gate's sample.
func steps() *pb.LoadSample {
	return &pb.LoadSample{
		Version: schemas.Version, Model: 7, Host: "gate-1", Layer: 2, SpanMs: 5, Source: pb.LoadSource_LOAD_SOURCE_GATE,
		Steps: []*pb.StepLoad{{Owner: "attention-1", Step: 9, Rows: 3, PrefillRows: 1, Expert: []uint32{0, 5}, Count: []uint32{3, 3}}},
	}
}

func predicted() *pb.LoadSample {
	s := steps()
	s.Source, s.Steps[0].Distance = pb.LoadSource_LOAD_SOURCE_PREDICTOR, 1
	return s
}

// functions is a host's sample that has nothing of experts.
func functions() *pb.LoadSample {
	s := sample()
	s.Expert, s.Rows, s.Total = nil, nil, nil
	s.Functions = []*pb.FunctionLoad{{Id: "00000000000000ab", Expert: []uint32{1, 2}, Messages: 2, Rows: 9, ComputeNs: 100, Waiting: 1}}
	s.Memory = &pb.HostLoad{BudgetBytes: 100, UsedBytes: 100, Warm: 2}
	return s
}

// times are an attention replica's sample.
func times() *pb.LoadSample {
	t := NewTimes(7, "attention-1")
	t.Add(2, Took{Rows: 3, Dispatches: 4, Total: 100, Messages: 30})
	return t.Take(TimesEvery)[0]
}

func figures(n int) map[string]float64 {
	all := map[string]float64{}
	for i := range n {
		all[strconv.Itoa(i)] = 1
	}
	return all
}

// What gates, predictors and hosts may claim.
func TestCheckParts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		of      *pb.LoadSample
		change  func(*pb.LoadSample)
		problem string // empty: none
	}{
		{"gate", steps(), func(*pb.LoadSample) {}, ""},
		{"predictor", predicted(), func(*pb.LoadSample) {}, ""},
		{"functions", functions(), func(*pb.LoadSample) {}, ""},
		{"source", steps(), func(s *pb.LoadSample) { s.Source = 9 }, "source 9"},
		{"times", times(), func(*pb.LoadSample) {}, ""},
		{"times and steps", times(), func(s *pb.LoadSample) { s.Steps = steps().Steps }, "tells of experts"},
		{"no times", times(), func(s *pb.LoadSample) { s.Times = nil }, "times of 0 classes"},
		{"requests that wait", times(), func(s *pb.LoadSample) { s.Times, s.Waiting = nil, proto.Uint64(5) }, ""},
		{"none that wait", times(), func(s *pb.LoadSample) { s.Times, s.Waiting = nil, proto.Uint64(0) }, ""},
		{"absurdly many wait", times(), func(s *pb.LoadSample) { s.Waiting = proto.Uint64(1e18) }, "1000000000000000000 requests wait"},
		{"fewer than none wait", times(), func(s *pb.LoadSample) { s.Waiting = proto.Uint64(math.MaxUint64) }, "requests wait"},
		{"waiting at a gate", steps(), func(s *pb.LoadSample) { s.Waiting = proto.Uint64(5) }, "tells of a host"},
		{"waiting at a host", functions(), func(s *pb.LoadSample) { s.Waiting = proto.Uint64(5) }, "5 requests that wait"},
		{"a time of no steps", times(), func(s *pb.LoadSample) { s.Times[0].Steps = 0 }, "a time of 0 steps"},
		{"more steps than rows", times(), func(s *pb.LoadSample) { s.Times[0].Steps = 4 }, "4 steps with 3 rows"},
		{"no time", times(), func(s *pb.LoadSample) { s.Times[0].TotalNs = 0 }, "took 0 ns"},
		{"longer messages", times(), func(s *pb.LoadSample) { s.Times[0].MessageNs = 101 }, "took 100 ns, 101 of it"},
		{"endless", times(), func(s *pb.LoadSample) { s.Times[0].TotalNs = 1 << 63 }, "at most an hour"},
		{"squares", times(), func(s *pb.LoadSample) { s.Times[0].Squares = 1 << 62 }, "which cannot be"},
		{"times of a gate", steps(), func(s *pb.LoadSample) { s.Times = times().Times }, "tells of a host"},
		{"times of a host", functions(), func(s *pb.LoadSample) { s.Times = times().Times }, "1 times of a host"},
		{"memory of a gate", steps(), func(s *pb.LoadSample) { s.Use = &pb.MemoryUse{} }, "tells of a host"},
		{"host's parts of a gate", steps(), func(s *pb.LoadSample) { s.Memory = &pb.HostLoad{} }, "tells of a host"},
		{"no steps", steps(), func(s *pb.LoadSample) { s.Steps = nil }, "0 steps"},
		{"many steps", steps(), func(s *pb.LoadSample) { s.Steps = make([]*pb.StepLoad, claims.MaxSteps+1) }, "4097 steps"},
		{"owner", steps(), func(s *pb.LoadSample) { s.Steps[0].Owner = "a.b" }, "owner"},
		{"no rows", steps(), func(s *pb.LoadSample) { s.Steps[0].Rows = 0 }, "0 rows"},
		{"too many rows", steps(), func(s *pb.LoadSample) { s.Steps[0].Rows = 1 << 31 }, "rows of a step"},
		{"more of prompts", steps(), func(s *pb.LoadSample) { s.Steps[0].PrefillRows = 4 }, "4 of prompts"},
		{"distance of a gate", steps(), func(s *pb.LoadSample) { s.Steps[0].Distance = 1 }, "distance 1"},
		{"no distance", predicted(), func(s *pb.LoadSample) { s.Steps[0].Distance = 0 }, "distance 0"},
		{"from before the first layer", predicted(), func(s *pb.LoadSample) { s.Steps[0].Distance = 3 }, "distance 3"},
		{"lengths", steps(), func(s *pb.LoadSample) { s.Steps[0].Count = []uint32{6} }, "2 experts of a step with 1"},
		{"expert", steps(), func(s *pb.LoadSample) { s.Steps[0].Expert[1] = 8 }, "expert 8"},
		{"descending", steps(), func(s *pb.LoadSample) { s.Steps[0].Expert[0] = 6 }, "expert 5 after expert 6"},
		{"no count", steps(), func(s *pb.LoadSample) { s.Steps[0].Count[0] = 0 }, "0 of 3 rows"},
		{"a row twice", steps(), func(s *pb.LoadSample) { s.Steps[0].Count = []uint32{4, 2} }, "4 of 3 rows"},
		{"sum", steps(), func(s *pb.LoadSample) { s.Steps[0].Count[1] = 2 }, "add up to 5"},
		{"predicted sum", predicted(), func(s *pb.LoadSample) { s.Steps[0].Count[1] = 14 }, "add up to 17"},
		{"predicted and rounded", predicted(), func(s *pb.LoadSample) { s.Steps[0].Count[1] = 4 }, ""},
		{"function", functions(), func(s *pb.LoadSample) { s.Functions[0].Id = "x" }, "function"},
		{"function without experts", functions(), func(s *pb.LoadSample) { s.Functions[0].Expert = nil }, "no experts"},
		{"function's expert", functions(), func(s *pb.LoadSample) { s.Functions[0].Expert[1] = 8 }, "expert 8"},
		{"function's rows", functions(), func(s *pb.LoadSample) { s.Functions[0].Rows = 1 << 40 }, "messages of"},
		{"function's time", functions(), func(s *pb.LoadSample) { s.Functions[0].StallNs = 1 << 60 }, "waited"},
		{"many functions", functions(), func(s *pb.LoadSample) { s.Functions = make([]*pb.FunctionLoad, 65) }, "65 functions"},
		{"a GPU", functions(), func(s *pb.LoadSample) { s.Memory.Gpu = map[string]float64{"gpu_power_watts": 350} }, ""},
		{"a GPU's figure", functions(), func(s *pb.LoadSample) { s.Memory.Gpu = map[string]float64{"gpu_power_watts": math.NaN()} }, "gpu_power_watts"},
		{"an endless figure", functions(), func(s *pb.LoadSample) { s.Memory.Gpu = map[string]float64{"x": math.Inf(1)} }, "is +Inf"},
		{"many figures", functions(), func(s *pb.LoadSample) { s.Memory.Gpu = figures(65) }, "65 figures"},
		{"more than it may hold", functions(), func(s *pb.LoadSample) { s.Memory.UsedBytes = 101 }, "101 bytes of the 100"},
		{"sums of memory", functions(), func(s *pb.LoadSample) { s.Memory.Use = &pb.MemoryUse{KeptGbS: 1, LoadedBytes: 1 << 60} }, ""},
		{"less than nothing", functions(), func(s *pb.LoadSample) { s.Memory.Use = &pb.MemoryUse{KeptGbS: -1} }, `"kept" of memory is -1`},
		{"a layer's", functions(), func(s *pb.LoadSample) { s.Use = &pb.MemoryUse{ServingGbS: -1} }, `"serving" of memory is -1`},
		{"no number", functions(), func(s *pb.LoadSample) { s.Memory.Use = &pb.MemoryUse{TakenGbS: math.NaN()} }, "taken"},
		{"an endless sum", functions(), func(s *pb.LoadSample) { s.Memory.Use = &pb.MemoryUse{Seconds: math.Inf(1)} }, "seconds"},
		{"absurd loads", functions(), func(s *pb.LoadSample) { s.Memory.Use = &pb.MemoryUse{Loads: 1 << 60} }, "loads"},
		{"no limit", functions(), func(s *pb.LoadSample) { s.Memory.BudgetBytes = 0 }, ""},
		{"memory", functions(), func(s *pb.LoadSample) { s.Memory.ColdStartNs = 1 << 60 }, "cold starts"},
	} {
		tt.change(tt.of)
		err := limits.Check(tt.of)
		if tt.problem == "" && err != nil || tt.problem != "" && (!errors.Is(err, claims.ErrSample) || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.problem)
		}
	}
}

// A tally is of experts' totals: what tells of other things is none of its samples.
func TestTallyTakesTotals(t *testing.T) {
	for _, s := range []*pb.LoadSample{steps(), predicted(), functions()} {
		if err := NewTally(limits).Add(body(t, s)); !errors.Is(err, claims.ErrSample) {
			t.Errorf("%v: %v", s.Source, err)
		}
	}
}

// FuzzCheck wants no sample to get past that does not add up.
func FuzzCheck(f *testing.F) {
	for _, s := range []*pb.LoadSample{sample(), steps(), predicted(), functions()} {
		f.Add(body(f, s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &pb.LoadSample{}
		if proto.Unmarshal(data, s) != nil || limits.Check(s) != nil {
			return
		}
		for _, step := range s.Steps {
			sum := 0
			for i, n := range step.Count {
				sum += int(n)
				if step.Expert[i] >= uint32(limits.Experts) {
					t.Errorf("expert %d", step.Expert[i])
				}
			}
			if off := sum - int(step.Rows)*limits.TopK; off != 0 && s.Source == pb.LoadSource_LOAD_SOURCE_GATE || max(off, -off) > limits.Experts {
				t.Errorf("%d rows with counts of %d", step.Rows, sum)
			}
		}
	})
}
