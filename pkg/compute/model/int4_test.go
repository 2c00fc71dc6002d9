package model

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// drawn is a matrix (N, K) with codes, scales and zeros by chance.
type drawn struct {
	n, k, group int
	codes       [][]uint32 // (K, N)
	zeros       [][]uint32 // (groups, N)
	scales      [][]uint16 // (groups, N)
	groups      []int      // of inputs
}

func draw(n, k, group int, shuffled bool) drawn {
	r := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	d := drawn{n: n, k: k, group: group}
	for input := range k {
		d.groups = append(d.groups, input/group)
		d.codes = append(d.codes, nibbles(r, n))
	}
	for range (k + group - 1) / group {
		d.zeros = append(d.zeros, nibbles(r, n))
		row := make([]uint16, n)
		for i := range row {
			row[i] = safetensors.FloatToHalf(0.001 + float32(r.IntN(1000))*1e-4)
		}
		d.scales = append(d.scales, row)
	}
	if shuffled { // as desc_act does
		r.Shuffle(k, func(i, j int) { d.groups[i], d.groups[j] = d.groups[j], d.groups[i] })
	}
	return d
}

func nibbles(r *rand.Rand, n int) []uint32 {
	row := make([]uint32, n)
	for i := range row {
		row[i] = r.Uint32N(16)
	}
	return row
}

// numbers are scale · (code − zero), row-major.
func (d *drawn) numbers() []float32 {
	out := make([]float32, 0, d.n*d.k)
	for o := range d.n {
		for i := range d.k {
			g := d.groups[i]
			out = append(out, cpu.HalfToFloat(d.scales[g][o])*float32(int(d.codes[i][o])-int(d.zeros[g][o])))
		}
	}
	return out
}

// words puts eight codes at a time into one, the first in the lowest bits.
func words(codes []uint32) (b []byte) {
	for eight := range slices.Chunk(codes, 8) {
		word := uint32(0)
		for i, c := range eight {
			word |= c << (4 * i)
		}
		b = binary.LittleEndian.AppendUint32(b, word)
	}
	return b
}

// awq reorders each eight of a row as AutoAWQ does before it packs them.
func awq(row []uint32) []uint32 {
	out := make([]uint32, 0, len(row))
	for eight := range slices.Chunk(row, 8) {
		for _, i := range []int{0, 2, 4, 6, 1, 3, 5, 7} {
			out = append(out, eight[i])
		}
	}
	return out
}

// tensors are the parts of the matrix with that name.
func (d *drawn) tensors(kind Dequant, name string) []safetensors.Tensor {
	base := strings.TrimSuffix(name, "weight")
	var codes, zeros, scales, order []byte
	for _, row := range d.zeros {
		packed := slices.Clone(row)
		switch kind {
		case AWQ:
			packed = awq(row)
		case GPTQ:
			for i, z := range packed {
				packed[i] = (z - 1) & 15
			}
		}
		zeros = append(zeros, words(packed)...)
	}
	if kind == AWQ {
		for _, row := range d.codes {
			codes = append(codes, words(awq(row))...)
		}
	} else {
		for eight := range slices.Chunk(d.codes, 8) {
			for o := range d.n {
				column := make([]uint32, 8)
				for i := range column {
					column[i] = eight[i][o]
				}
				codes = append(codes, words(column)...)
			}
		}
	}
	for _, row := range d.scales {
		for _, s := range row {
			scales = binary.LittleEndian.AppendUint16(scales, s)
		}
	}
	for _, g := range d.groups {
		order = binary.LittleEndian.AppendUint32(order, uint32(g))
	}
	shape := []int{d.k / 8, d.n}
	if kind == AWQ {
		shape = []int{d.k, d.n / 8}
	}
	all := []safetensors.Tensor{
		{Name: base + "qweight", DType: safetensors.I32, Shape: shape, Data: codes},
		{Name: base + "qzeros", DType: safetensors.I32, Shape: []int{len(d.zeros), d.n / 8}, Data: zeros},
		{Name: base + "scales", DType: safetensors.F16, Shape: []int{len(d.scales), d.n}, Data: scales},
	}
	if kind != AWQ {
		all = append(all, safetensors.Tensor{Name: base + "g_idx", DType: safetensors.I32, Shape: []int{d.k}, Data: order})
	}
	return all
}

// inInt4 is a golden checkpoint with the layers' matrices but routers in int4, and what they are.
func inInt4(t *testing.T, kind Dequant, config map[string]any, group int, shuffled bool) (dir string, want map[string]drawn) {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(copyGolden(t, "mixtral", nil), singleFile))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, f)
	want = map[string]drawn{}
	var all []safetensors.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		if len(x.Shape) != 2 || !strings.Contains(name, ".layers.") || strings.HasSuffix(name, ".gate.weight") {
			all = append(all, x)
			continue
		}
		size := group
		if size < 0 {
			size = x.Shape[1]
		}
		want[name] = draw(x.Shape[0], x.Shape[1], size, shuffled)
		d := want[name]
		all = append(all, d.tensors(kind, name)...)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, nil); err != nil {
		t.Fatal(err)
	}
	dir = copyGolden(t, "mixtral", map[string]any{"quantization_config": config})
	write(t, dir, singleFile, b.Bytes())
	return dir, want
}

// A matrix in int4 has its scales times the differences of codes.
func TestInt4(t *testing.T) {
	for _, tt := range []struct {
		name     string
		kind     Dequant
		config   map[string]any
		group    int
		shuffled bool
	}{
		{"gptq", GPTQ, map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false, "sym": true, "damp_percent": 0.01}, 32, false},
		{"gptq in another order", GPTQ, map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true}, 32, true},
		{"gptq with one group", GPTQ, map[string]any{"quant_method": "gptq", "bits": 4, "group_size": -1}, -1, false},
		{"gptq_v2", GPTQ2, map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"}, 32, false},
		{"awq", AWQ, map[string]any{"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": true, "modules_to_not_convert": []string{"gate"}}, 32, false},
		{"awq, spelt otherwise", AWQ, map[string]any{"quant_method": "awq", "w_bit": 4, "q_group_size": 16, "version": "GEMM", "zero_point": true}, 16, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, want := inInt4(t, tt.kind, tt.config, tt.group, tt.shuffled)
			m, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			closeAfter(t, m)
			seen, whole := 0, openGolden(t, "mixtral")
			for ref := range m.Spec.Refs() {
				d, ok := want[m.family.tensor(&m.Spec, ref).Name]
				if !ok {
					continue
				}
				seen++
				got, err := m.Floats(ref)
				if err != nil || !slices.Equal(got, d.numbers()) {
					t.Fatalf("%v differs, error %v", ref, err)
				}
				if x, err := m.Stat(ref); err != nil || x.DType != safetensors.F32 || !m.Dequant(ref).Int4() {
					t.Fatalf("%v is %s, error %v", ref, x.DType, err)
				}
			}
			if seen != len(want) || len(m.Unused) > 0 || m.Bytes >= whole.Bytes/2 {
				t.Errorf("%d of %d matrices; unused %v; %d bytes, %d in bf16", seen, len(want), m.Unused, m.Bytes, whole.Bytes)
			}
			checkStored(t, m)
		})
	}
}

func TestInt4Refused(t *testing.T) {
	for key, values := range map[string]map[string]any{
		"bits is 8, supported is 4":                     {"quant_method": "gptq", "bits": 8, "group_size": 32},
		"group_size is 0":                               {"quant_method": "gptq", "bits": 4},
		`checkpoint_format is "marlin"`:                 {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "marlin"},
		`pack_dtype is "int8"`:                          {"quant_method": "gptq", "bits": 4, "group_size": 32, "pack_dtype": "int8"},
		"dynamic is not supported":                      {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": map[string]any{"-:gate": map[string]any{}}},
		`version is "gemv"`:                             {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemv"},
		"zero_point is false":                           {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": false},
		"has shape [2 64], config.json makes it [1 64]": {"quant_method": "gptq", "bits": 4, "group_size": 64},
		`supported are mxfp4, fp8, gptq, awq and c`:     {"quant_method": "bitsandbytes"},
	} {
		dir, _ := inInt4(t, GPTQ, values, 32, false)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v", key, err)
		}
	}
	for name, spoil := range map[string]func(d *drawn){
		"is of group 7, of 2": func(d *drawn) { d.groups[3] = 7 },
		"has a scale of NaN":  func(d *drawn) { d.scales[0][1] = 0x7e00 },
	} {
		d := draw(16, 64, 32, false)
		spoil(&d)
		parts := map[string]safetensors.Tensor{}
		for _, x := range d.tensors(GPTQ, "x.weight") {
			parts[x.Name] = x
		}
		at := TensorRef{Name: "x.weight", Dequant: GPTQ, Group: 32}
		r, err := resolve(at, Ref{}, []int{16, 64}, 1, func(name string) (Tensor, bool) { x, ok := parts[name]; return x, ok })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.int4(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := resolve(TensorRef{Name: "x.weight", Dequant: AWQ, Group: 32}, Ref{}, []int{12, 64}, 1, nil); err == nil {
		t.Error("12 outputs are no whole words, and accepted")
	}
}

// matrix is what is stored of the codes, without a file around it.
func (d *drawn) matrix(tb testing.TB, kind Dequant) int4Matrix {
	tb.Helper()
	parts := map[string]safetensors.Tensor{}
	for _, x := range d.tensors(kind, "x.weight") {
		parts[x.Name] = x
	}
	at := TensorRef{Name: "x.weight", Dequant: kind, Group: d.group}
	r, err := resolve(at, Ref{}, []int{d.n, d.k}, 1, func(name string) (Tensor, bool) { x, ok := parts[name]; return x, ok })
	if err != nil {
		tb.Fatal(err)
	}
	m, err := r.int4()
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Inputs fill no whole number of tiles, and groups end within one.
func TestInt4Tiles(t *testing.T) {
	for _, kind := range []Dequant{GPTQ, GPTQ2, AWQ} {
		for _, k := range []int{8, int4Tile, int4Tile + 8, 3*int4Tile - 16} {
			for _, group := range []int{8, 24, 64} {
				d := draw(24, k, group, false)
				m, got := d.matrix(t, kind), make([]float32, 24*k)
				if m.numbersTo(got); !slices.Equal(got, d.numbers()) {
					t.Errorf("way %d, %d inputs in groups of %d: numbers differ", kind, k, group)
				}
			}
		}
	}
}

func BenchmarkInt4(b *testing.B) {
	for _, kind := range []Dequant{GPTQ, AWQ} {
		b.Run(map[Dequant]string{GPTQ: "gptq", AWQ: "awq"}[kind], func(b *testing.B) {
			const n, k = 768, 2048
			d := draw(n, k, 128, false)
			m, out := d.matrix(b, kind), make([]float32, n*k)
			b.SetBytes(n * k / 2)
			for b.Loop() {
				m.numbersTo(out)
			}
		})
	}
}
