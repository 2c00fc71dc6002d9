package verify

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/gpus/cudabackend"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

var checkpoint = goldens.Dir("mixtral")

func start(t *testing.T, dir string, change func(*cluster.Services)) *cluster.Cluster {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := clustertest.Settings(t.Context(), m, tensor.F32, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	change(&s.Services)
	return clustertest.Ready(t, s)
}

func onCPU(*cluster.Services) {}

// onGPU has experts, gates and attention on a fake GPU each.
func onGPU(t *testing.T) func(*cluster.Services) {
	return func(s *cluster.Services) {
		s.Expert.GPU, s.Gate.GPU, s.Attention.GPU = gpuWith(t, fake.Experts()), gpuWith(t, fake.Gates()), gpuWith(t, fake.Backbone())
		s.Attention.KVBytes, s.Attention.MaxRows = 0, 64
	}
}

func gpuWith(t *testing.T, k map[string]fake.Kernel) *gpus.GPU {
	t.Helper()
	on := fake.New(fake.Settings{Kernels: k})
	t.Cleanup(func() { _ = on.Close() }) // says only that it is closed
	return &gpus.GPU{
		Info: on.Info(), Memory: 60 << 20,
		Backend: cudabackend.Backend{Driver: func() (kernels.Driver, error) { return on, nil }, Images: kernels.Images{"experts.sm_90a.cubin": {1}}},
	}
}

// A pipeline that computes on GPUs passes with every golden checkpoint, and notices what a
// pipeline on CPUs does.
func TestCompareOnGPU(t *testing.T) {
	for _, name := range testkit.Some(goldens.Names()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := goldens.Dir(name)
			judged(t, start(t, dir, onGPU(t)), dir, func(g *Golden) { g.parts[0].logits[5]++ })
		})
	}
}

// So does one whose GPU has experts' kernels by wgmma alone.
func TestCompareByWgmma(t *testing.T) {
	judged(t, start(t, checkpoint, func(s *cluster.Services) {
		onGPU(t)(s)
		only := fake.Experts()
		maps.DeleteFunc(only, func(name string, _ fake.Kernel) bool {
			return !strings.Contains(name, "wgmma") && !strings.HasPrefix(name, "rows_") && name != "sum_slots"
		})
		s.Expert.GPU = gpuWith(t, only)
		s.Expert.GPU.Kernels = kernels.Wgmma
	}), checkpoint, func(g *Golden) { g.parts[0].logits[5]++ })
}

// judged wants a checkpoint to pass, and not once its golden file is spoilt. It returns how
// many ids were compared.
func judged(t *testing.T, y *cluster.Cluster, dir string, spoil func(*Golden)) (compared int) {
	t.Helper()
	for _, spoilt := range []bool{false, true} {
		g, err := ReadGolden(dir)
		if err != nil {
			t.Fatal(err)
		}
		if spoilt {
			spoil(g)
		}
		v, err := Compare(t.Context(), y, g, true)
		if err != nil {
			t.Fatal(err)
		}
		if v.Pass == spoilt {
			t.Errorf("spoilt %v: %v", spoilt, v)
		}
		compared = v.GreedyCompared
	}
	return compared
}

// The pipeline passes with the outputs of transformers, and with nothing else.
func TestCompare(t *testing.T) {
	y := start(t, checkpoint, onCPU)
	for _, tt := range []struct {
		name   string
		spoil  func(*Golden)
		judged bool
		pass   bool
	}{
		{"golden", func(*Golden) {}, true, true},
		{"another logit", func(g *Golden) { g.parts[0].logits[5]++ }, true, false},
		{"another prefix", func(g *Golden) { g.parts[2].logits[5]++ }, true, false},
		{"another id", func(g *Golden) { g.greedy[g.GreedyPrompt]++ }, true, false},
		{"not judged", func(g *Golden) { g.parts[0].logits[5]++ }, false, true},
	} {
		g, err := ReadGolden(checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		tt.spoil(g)
		v, err := Compare(t.Context(), y, g, tt.judged)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if v.Pass != tt.pass || v.Judged != tt.judged || v.Messages == 0 || v.GreedyCompared == 0 {
			t.Errorf("%s: %v", tt.name, v)
		}
	}
}

// Every kind of model passes, by what its golden file has of it.
func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		name     string
		compared int
		spoil    func(*Golden)
	}{
		{"gpt2_moe", 24, func(g *Golden) { g.parts[1].logits[3]++ }},
		{"bert_moe", 0, func(g *Golden) { g.parts[0].prompt.TokenTypeIds[2] = 1 }},
		{"bert2bert_moe", 24, func(g *Golden) { g.parts[1].hidden[7]++ }},
	} {
		dir := goldens.Dir(tt.name)
		if got := judged(t, start(t, dir, onCPU), dir, tt.spoil); got != tt.compared {
			t.Errorf("%s: %d ids were compared, want %d", tt.name, got, tt.compared)
		}
	}
}

// What lies in a checkpoint's folder may be anything.
func TestReadGolden(t *testing.T) {
	facts, err := os.ReadFile(filepath.Join(checkpoint, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(filepath.Join(checkpoint, "golden.safetensors"+safetensors.PackedSuffix))
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := safetensors.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(filepath.Join(checkpoint, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	logits, _ := f.Tensor("logits")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	good := slices.Clone(tensors)
	copy(tensors[logits.Offset:], "\x00\x00\xc0\x7f") // NaN
	for name, files := range map[string]map[string][]byte{
		"not a number": {"golden.json": facts, "golden.safetensors": tensors},
		"nothing":      {},
		"no JSON":      {"golden.json": []byte("golden")},
		"no tensors":   {"golden.json": facts},
		"huge facts":   {"golden.json": append(slices.Clone(facts), bytes.Repeat([]byte(" "), maxFacts)...), "golden.safetensors": good},
		"bad tensors":  {"golden.json": facts, "golden.safetensors": []byte("golden")},
	} {
		dir := t.TempDir()
		for file, data := range files {
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ReadGolden(dir); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Outputs are of the positions that the file names, else of all.
func TestGoldenPositions(t *testing.T) {
	for name, tt := range map[string]struct {
		named []uint32
		shape []int
		ids   []int
		want  []uint32 // nil: an error
	}{
		"all":         {nil, []int{2, 3, 8}, []int{2, 3}, []uint32{0, 1, 2}},
		"some":        {[]uint32{0, 2}, []int{2, 2, 8}, []int{2, 3}, []uint32{0, 2}},
		"too few":     {nil, []int{2, 2, 8}, []int{2, 3}, nil},
		"no last":     {[]uint32{0, 1}, []int{2, 2, 8}, []int{2, 3}, nil},
		"unnamed":     {[]uint32{2}, []int{2, 2, 8}, []int{2, 3}, nil},
		"behind":      {[]uint32{0, 3}, []int{2, 2, 8}, []int{2, 3}, nil},
		"in disorder": {[]uint32{2, 0, 2}, []int{2, 3, 8}, []int{2, 3}, nil},
		"a sequence":  {nil, []int{1, 3, 8}, []int{2, 3}, nil},
	} {
		file := &tensors{positions: tt.named}
		if got := file.allPositions(tt.shape, "input_ids", tt.ids); (file.err == nil) != (tt.want != nil) || file.err == nil && !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v", name, got, file.err)
		}
	}
}

func TestMargin(t *testing.T) {
	for _, tt := range []struct {
		row  []float32
		want float32
	}{{[]float32{1, 4, 2}, 2}, {[]float32{4, 4, 1}, 0}, {[]float32{-1, -3}, 2}} {
		if got := margin(tt.row); got != tt.want {
			t.Errorf("margin of %v is %v, want %v", tt.row, got, tt.want)
		}
	}
}

// Logits that are no numbers differ by the most that JSON can say.
func TestDifferNoNumbers(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, tc := range map[string]struct {
		got  []float32
		want float64
	}{
		"numbers": {[]float32{1, 3}, 2}, "infinity": {[]float32{inf, 1}, math.MaxFloat64}, "minus infinity": {[]float32{0, -inf}, math.MaxFloat64}, "NaN first": {[]float32{nan, 1}, math.MaxFloat64},
	} {
		v := &Verdict{}
		if err := v.differ("logits", tc.got, []float32{1, 1}); err != nil || v.MaxAbsDiff != tc.want {
			t.Errorf("%s: %v, %v, want %v", name, v.MaxAbsDiff, err, tc.want)
		}
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
