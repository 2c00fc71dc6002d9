package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// groupedConfig is quantization_config of codes of so many bits, with changes to its weights and to itself.
func groupedConfig(bits int, weights, outer map[string]any) []byte {
	args := map[string]any{"num_bits": bits, "type": "int", "symmetric": true, "strategy": "group", "group_size": 32, "dynamic": false, "observer": "minmax", "actorder": nil}
	maps.Copy(args, weights)
	group := map[string]any{"targets": []string{"Linear"}, "weights": args, "input_activations": nil, "output_activations": nil}
	q := map[string]any{"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": map[string]any{"group_0": group}, "ignore": []string{"lm_head"}, "kv_cache_scheme": nil, "version": "0.20.0"}
	maps.Copy(q, outer)
	config, _ := json.Marshal(map[string]any{
		"model_type": "mixtral", "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 32,
		"max_position_embeddings": 64, "num_local_experts": 2, "num_experts_per_tok": 1, "intermediate_size": 64, "quantization_config": q,
	})
	return config
}

// What files of compressed-tensors say of their codes is believed only where kernels compute with them.
func TestGroupedConfig(t *testing.T) {
	group := func(change map[string]any) map[string]any {
		args := map[string]any{"num_bits": 8, "type": "int", "symmetric": true, "strategy": "group", "group_size": 32}
		g := map[string]any{"targets": []string{"Linear"}, "weights": args}
		maps.Copy(g, change)
		return map[string]any{"config_groups": map[string]any{"g": g}}
	}
	for _, tt := range []struct {
		weights, outer map[string]any
		want           string // empty: it is read
	}{
		{nil, nil, ""},
		{map[string]any{"actorder": "static"}, nil, ""},
		{nil, map[string]any{"sparsity_config": map[string]any{"format": "dense"}, "transform_config": map[string]any{}}, ""},
		{nil, group(nil), ""},
		{map[string]any{"group_size": 128}, nil, ""},
		{map[string]any{"strategy": "channel", "group_size": nil}, nil, ""},
		{map[string]any{"group_size": 48}, nil, "group_size 48"},
		{map[string]any{"group_size": 0}, nil, "group_size 0"},
		{map[string]any{"num_bits": 2}, nil, "num_bits 2"},
		{map[string]any{"type": "float"}, nil, "type float"},
		{map[string]any{"symmetric": false}, nil, "symmetric false"},
		{map[string]any{"strategy": "tensor", "group_size": nil}, nil, "strategy tensor"},
		{map[string]any{"dynamic": true}, nil, "dynamic true"},
		{map[string]any{"actorder": "group"}, nil, "actorder is group"},
		{nil, map[string]any{"format": "int-quantized"}, `format is "int-quantized"`},
		{nil, map[string]any{"config_groups": map[string]any{}}, "config_groups has 0 groups"},
		{nil, group(map[string]any{"weights": nil}), "weights are missing"},
		{nil, group(map[string]any{"input_activations": map[string]any{"num_bits": 8}}), "activations are quantised"},
		{nil, group(map[string]any{"format": "nvfp4-pack-quantized"}), `format is "nvfp4-pack-quantized"`},
		{nil, map[string]any{"sparsity_config": map[string]any{"format": "sparse-24-bitmask"}}, "sparsity_config is not supported"},
		{nil, map[string]any{"transform_config": map[string]any{"config_groups": 1}}, "transform_config is not supported"},
		{nil, map[string]any{"kv_cache_scheme": map[string]any{"num_bits": 8}}, "kv_cache_scheme is not supported"},
		{nil, map[string]any{"surprise": 7}, "surprise is not supported"},
	} {
		s, _, err := ParseSpec(groupedConfig(8, tt.weights, tt.outer), nil)
		if tt.want == "" && (err != nil || s.Quant != Grouped8) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v %v: %v, want %q", tt.weights, tt.outer, err, tt.want)
		}
	}
	if s, _, err := ParseSpec(groupedConfig(4, nil, nil), nil); err != nil || s.Quant != Grouped4 {
		t.Errorf("%v, %v", s.Quant, err)
	}
}

// groupedTensors are a matrix (n, k), or a stack of them.
func groupedTensors(n, k, bits, experts int) map[string]safetensors.Tensor {
	rows := n * max(1, experts)
	all := []safetensors.Tensor{
		{Name: "w_packed", DType: safetensors.I32, Shape: []int{n, k * bits / 32}, Data: make([]byte, rows*k*bits/8)},
		{Name: "w_scale", DType: safetensors.BF16, Shape: []int{n, k / 32}, Data: make([]byte, rows*k/16)},
		{Name: "w_shape", DType: safetensors.I64, Shape: []int{2}},
	}
	for i := range all[0].Data {
		all[0].Data[i] = byte(37 * i)
	}
	for i := 0; i < len(all[1].Data); i += 2 {
		binary.LittleEndian.PutUint16(all[1].Data[i:], uint16(math.Float32bits(float32(i/2+1))>>16))
	}
	all[2].Data = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(n)), uint64(k))
	named := map[string]safetensors.Tensor{}
	for _, x := range all {
		if experts > 0 {
			x.Shape = append([]int{experts}, x.Shape...)
		}
		named[x.Name] = x
	}
	return named
}

// A part of a stack has the numbers that its rows say.
func TestGroupedParts(t *testing.T) {
	for _, bits := range []int{4, 8} {
		stored, kind, want := groupedTensors(6, 64, bits, 2), Grouped8, make([]float32, 3*64)
		if bits == 4 {
			kind = Grouped4
		}
		for i := range want {
			row := 6 + i/64*2 + 1 // of the second expert, the odd ones
			scale := float32(row*2 + i%64/32 + 1)
			code := int(stored["w_packed"].Data[(row*64+i%64)*bits/8]>>(i%2*4*(1-bits/8))) & (1<<bits - 1)
			want[i] = float32(code-1<<(bits-1)) * scale
		}
		at := TensorRef{Name: "w", Dequant: kind, Stacked: true, Part: Part{Index: 1, Count: 2, Interleaved: true}}
		r, err := resolve(at, Ref{Expert: 1}, []int{3, 64}, 2, func(name string) (Tensor, bool) { x, ok := stored[name]; return x, ok })
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(want))
		if err := (&Model{}).groupedTo(r, Ref{}, got); err != nil || !slices.Equal(got, want) || r.bytes() != int64(3*(64*bits/8+4)) {
			t.Errorf("%d bits: %v, %d bytes\n%v\n%v", bits, err, r.bytes(), got, want)
		}
	}
}

// widen leaves so many scales of each output.
func widen(stored map[string]safetensors.Tensor, groups int) {
	s := stored["w_scale"]
	s.Shape = []int{s.Shape[0], groups}
	s.Data = s.Data[:2*s.Len()]
	stored["w_scale"] = s
}

// A scale of more than 32 inputs, or of all, is that of each 32 among them: in numbers and in what kernels take.
func TestGroupedWider(t *testing.T) {
	const n, k = 3, 192
	for _, tt := range []struct{ bits, group, per int }{{4, 64, 64}, {8, 96, 96}, {4, 192, 192}, {8, maxWidth, 192}} {
		stored, kind := groupedTensors(n, k, tt.bits, 0), Grouped8
		widen(stored, k/tt.per)
		if tt.bits == 4 {
			kind = Grouped4
		}
		r, err := resolve(TensorRef{Name: "w", Dequant: kind, Group: tt.group}, Ref{}, []int{n, k}, 1, func(name string) (Tensor, bool) { x, ok := stored[name]; return x, ok })
		if err != nil {
			t.Fatal(err)
		}
		want, got := make([]float32, n*k), make([]float32, n*k)
		for i := range want {
			code := int(stored["w_packed"].Data[i*tt.bits/8]>>(i%2*4*(1-tt.bits/8))) & (1<<tt.bits - 1)
			want[i] = float32(code-1<<(tt.bits-1)) * float32(i/tt.per+1)
		}
		if err := (&Model{}).groupedTo(r, Ref{}, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %v\n%v\n%v", tt, err, got, want)
		}
		g, err := r.groupsOf()
		if err != nil {
			t.Fatal(err)
		}
		m, err := cpu.Packer{}.Groups(k, groupedFormats[kind], g)
		for i := 0; err == nil && i < n; i++ {
			if m.DecodedRow(got[:k], i); !slices.Equal(got[:k], want[i*k:][:k]) {
				t.Errorf("%+v: row %d differs", tt, i)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	_, err := resolve(TensorRef{Name: "w", Dequant: Grouped8, Group: 128}, Ref{}, []int{n, k}, 1, nil)
	if err == nil || !strings.Contains(err.Error(), "cannot be in groups of 128 inputs") {
		t.Error(err)
	}
}

// Codes with zeros of their own, and inputs in an order of their own, are refused by name; what changes nothing is not.
func TestGroupedStrays(t *testing.T) {
	const n, k = 2, 128
	order := func(of ...int32) (data []byte) {
		for i := range k {
			data = binary.LittleEndian.AppendUint32(data, uint32(of[min(len(of)-1, i/64)]))
		}
		return data
	}
	zeros := safetensors.Tensor{Name: "w_zero_point", DType: "I8", Shape: []int{n, k / 64}, Data: make([]byte, n*k/64)}
	shifted, packed := zeros, zeros
	shifted.Data = []byte{0, 0, 1, 0}
	packed.DType = safetensors.I32
	unread := zeros
	unread.Data = nil
	index := safetensors.Tensor{Name: "w_g_idx", DType: safetensors.I32, Shape: []int{k}}
	for _, tt := range []struct {
		data []byte // of w_g_idx
		x    safetensors.Tensor
		want string
	}{
		{nil, zeros, ""}, {nil, shifted, `tensor "w_zero_point" has codes for zero`}, {nil, packed, `tensor "w_zero_point" has codes for zero`},
		{nil, unread, `tensor "w_zero_point" has codes for zero`}, {nil, index, `tensor "w_g_idx" is not read`},
		{order(-1), index, ""}, {order(0, 1), index, ""}, {order(1, 0), index, `tensor "w_g_idx": input 0 is of group 1`},
	} {
		if tt.data != nil {
			tt.x.Data = tt.data
		}
		r := resolved{at: TensorRef{Name: "w", Dequant: Grouped8, Group: 64}, shape: []int{n, k}}
		err := r.strays(holding(tt.x))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s of %v: %v, want %q", tt.x.Name, tt.x.Data, err, tt.want)
		}
	}
}

// Parts that are missing, or are other than config.json says, are refused by their names.
func TestGroupedRefusals(t *testing.T) {
	for want, spoil := range map[string]func(x map[string]safetensors.Tensor){
		`tensor "w_scale" is missing`:              func(x map[string]safetensors.Tensor) { delete(x, "w_scale") },
		`"w_shape" is missing`:                     func(x map[string]safetensors.Tensor) { delete(x, "w_shape") },
		`"w_packed" has shape [4 8]`:               func(x map[string]safetensors.Tensor) { x["w_packed"] = groupedTensors(4, 64, 4, 0)["w_packed"] },
		`"w_scale" is F16`:                         func(x map[string]safetensors.Tensor) { s := x["w_scale"]; s.DType = safetensors.F16; x["w_scale"] = s },
		`"w_shape" is [4 96], but config.json mak`: func(x map[string]safetensors.Tensor) { x["w_shape"].Data[8] = 96 },
		`"w_scale": output 1: a scale is NaN`:      func(x map[string]safetensors.Tensor) { copy(x["w_scale"].Data[4:], "\xc0\x7f") },
	} {
		stored := groupedTensors(4, 64, 8, 0)
		spoil(stored)
		r, err := resolve(TensorRef{Name: "w", Dequant: Grouped8}, Ref{}, []int{4, 64}, 1, func(name string) (Tensor, bool) { x, ok := stored[name]; return x, ok })
		if err == nil {
			err = (&Model{}).groupedTo(r, Ref{}, make([]float32, 4*64))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := resolve(TensorRef{Name: "w", Dequant: Grouped8}, Ref{}, []int{4, 48}, 1, nil); err == nil || !strings.Contains(err.Error(), "cannot be in groups of 32 inputs") {
		t.Error(err)
	}
}

// Whatever files and config.json say, a matrix in groups is the numbers that they say, or refused.
func FuzzGrouped(f *testing.F) {
	f.Add([]byte(`{"format":"pack-quantized","config_groups":{"a":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","symmetric":true,"strategy":"group","group_size":32}}}}`), []byte("codes"), []byte{0x80, 0x3f}, uint8(2), uint8(1))
	f.Add([]byte(`{"config_groups":{"a":{"weights":null}}}`), []byte{}, []byte{}, uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, config, codes, scales []byte, n, groups uint8) {
		c, err := parseConfig("fuzz", config)
		if err != nil || n == 0 || groups == 0 {
			return
		}
		kind, group := c.packed()
		k := int(groups) * cpu.QGroup
		if c.err != nil || k%min(group, k) != 0 {
			return
		}
		stored := groupedTensors(int(n), k, groupedBits[kind], 0)
		widen(stored, k/min(group, k))
		copy(stored["w_packed"].Data, codes)
		copy(stored["w_scale"].Data, scales)
		r, err := resolve(TensorRef{Name: "w", Dequant: kind, Group: group}, Ref{}, []int{int(n), k}, 1, func(name string) (Tensor, bool) { x, ok := stored[name]; return x, ok })
		if err != nil {
			t.Fatal(err)
		}
		out := make([]float32, int(n)*k)
		refused := (&Model{}).groupedTo(r, Ref{}, out)
		g, err := r.groupsOf()
		if err != nil {
			t.Fatal(err)
		}
		for f := range 2 {
			m, err := cpu.Packer{}.Groups(k, groupedFormats[kind]+cpu.Format(2*f), g)
			if (err != nil) != (refused != nil) {
				t.Fatalf("packed: %v, decoded: %v", err, refused)
			}
			for i := 0; err == nil && i < int(n); i++ {
				row := make([]float32, k)
				if m.DecodedRow(row, i); fmt.Sprint(row) != fmt.Sprint(out[i*k:][:k]) {
					t.Fatalf("row %d: %v, want %v", i, row, out[i*k:][:k])
				}
			}
		}
	})
}

// inGroups is a folder of the golden mixtral whose experts' matrices are zeros in groups, with more tensors.
func inGroups(t *testing.T, more ...safetensors.Tensor) (dir string) {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(copyGolden(t, "mixtral", nil), singleFile))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, f)
	all := more
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		if !strings.Contains(name, ".experts.") {
			all = append(all, x)
			continue
		}
		for end, part := range groupedTensors(x.Shape[0], x.Shape[1], 8, 0) {
			part.Name = name + strings.TrimPrefix(end, "w")
			all = append(all, part)
		}
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, nil); err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(groupedConfig(8, nil, nil), &config); err != nil {
		t.Fatal(err)
	}
	dir = copyGolden(t, "mixtral", map[string]any{"quantization_config": config["quantization_config"]})
	write(t, dir, singleFile, b.Bytes())
	return dir
}

// Whoever opens a folder is told of codes that mean other numbers.
func TestOpenStrays(t *testing.T) {
	const matrix = "model.layers.0.block_sparse_moe.experts.1.w1.weight"
	for want, stray := range map[string]safetensors.Tensor{
		"": {Name: matrix + "_zero_point", DType: "I8", Shape: []int{2, 1}, Data: []byte{0, 0}},
		`tensor "` + matrix + `_zero_point" has codes for zero`:  {Name: matrix + "_zero_point", DType: "I8", Shape: []int{2, 1}, Data: []byte{0, 1}},
		`tensor "` + matrix + `_g_idx": input 1 is of group 256`: {Name: matrix + "_g_idx", DType: safetensors.I32, Shape: []int{2}, Data: []byte{0, 0, 0, 0, 0, 1, 0, 0}},
	} {
		m, err := Open(inGroups(t, stray))
		if err == nil {
			closeAfter(t, m)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
