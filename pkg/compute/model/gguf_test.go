package model

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/gguf/gguftest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// converted are a golden checkpoint's tensors as llama.cpp's converter writes them:
// architecture, names, experts stacked, and queries and keys of Llama in pairs.
func converted(t *testing.T, m *Model) []safetensors.Tensor {
	t.Helper()
	var all []safetensors.Tensor
	stacks := map[string]int{} // the place in all
	for ref := range m.Spec.Refs() {
		x, err := m.Tensor(ref)
		if err != nil {
			t.Fatal(err)
		}
		x.Name = strings.NewReplacer("{l}", strconv.Itoa(ref.Layer)).Replace(ggufTensors[ref.Role].Name)
		x.Data, x.Shape = slices.Clone(x.Data), slices.Clone(x.Shape)
		switch {
		case m.family == mixtral && (ref.Role == Q || ref.Role == K):
			x.Data = paired(x.Data, x.Shape[0], m.Spec.Layer[ref.Layer].Mixer.HeadDim)
		case ref.Role == SharedRouter:
			x.Shape = x.Shape[1:]
		case ref.Role.IsExpert():
			if at, ok := stacks[x.Name]; ok {
				all[at].Shape[0]++
				all[at].Data = append(all[at].Data, x.Data...)
				continue
			}
			stacks[x.Name] = len(all)
			x.Shape = append([]int{1}, x.Shape...)
		}
		all = append(all, x)
	}
	return all
}

// paired puts row i of a head's second half behind row i of its first.
func paired(data []byte, rows, headDim int) (out []byte) {
	size := len(data) / rows
	for head := range slices.Chunk(data, headDim*size) {
		for i := range headDim / 2 {
			out = append(out, head[i*size:][:size]...)
			out = append(out, head[(headDim/2+i)*size:][:size]...)
		}
	}
	return out
}

// eighths makes Q8_0 of matrices.
func eighths(t *testing.T, all []safetensors.Tensor) []safetensors.Tensor {
	t.Helper()
	for i, x := range all {
		if len(x.Shape) > 1 && !strings.Contains(x.Name, "gate_inp") {
			f, err := x.Floats()
			if err != nil {
				t.Fatal(err)
			}
			all[i].DType, all[i].Data = safetensors.Q80, gguftest.Quantise(f)
		}
	}
	return all
}

// ggufFolder is a golden checkpoint's folder with GGUF files in place of its weights.
func ggufFolder(t *testing.T, name string, files map[string][]byte) string {
	t.Helper()
	dir := copyGolden(t, name, nil)
	if err := os.Remove(filepath.Join(dir, singleFile)); err != nil {
		t.Fatal(err)
	}
	for file, data := range files {
		write(t, dir, file, data)
	}
	return dir
}

// inLlamaCpp are golden checkpoints, and the architectures that llama.cpp has them as.
var inLlamaCpp = map[string]string{
	"mixtral": "llama", "mixtral-window": "llama", "qwen2_moe": "qwen2moe", "qwen2_moe-mixed": "qwen2moe",
	"qwen3_moe": "qwen3moe", "olmoe": "olmoe", "phimoe": "phimoe",
}

// A folder with a GGUF file has the numbers of the one with the safetensors file.
func TestGGUF(t *testing.T) {
	for name, architecture := range inLlamaCpp {
		t.Run(name, func(t *testing.T) {
			whole := openGolden(t, name)
			m, err := Open(ggufFolder(t, name, map[string][]byte{"m-Q8_0.gguf": gguftest.File(architecture, converted(t, whole))}))
			if err != nil {
				t.Fatal(err)
			}
			closeAfter(t, m)
			for ref := range whole.Spec.Refs() {
				want, _ := whole.Floats(ref)
				if got, err := m.Floats(ref); err != nil || !slices.Equal(got, want) {
					t.Errorf("%v differs, error %v", ref, err)
				}
			}
			if m.Bytes != whole.Bytes || len(m.Unused) > 0 || m.Hash == whole.Hash {
				t.Errorf("%d bytes, not %d; unused %v; hash %.8s", m.Bytes, whole.Bytes, m.Unused, m.Hash)
			}
			checkStored(t, m)
		})
	}
}

func TestGGUFBlocks(t *testing.T) {
	whole := openGolden(t, "mixtral")
	m, err := Open(ggufFolder(t, "mixtral", map[string][]byte{"m.gguf": gguftest.File("llama", eighths(t, converted(t, whole)))}))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, m)
	if m.Bytes >= whole.Bytes*6/10 {
		t.Errorf("%d bytes of blocks, %d in bf16", m.Bytes, whole.Bytes)
	}
	for ref := range whole.Spec.Refs() {
		want, _ := whole.Floats(ref)
		got, err := m.Floats(ref)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%v: %d numbers, error %v", ref, len(got), err)
		}
		for i := range got {
			most := 0.0
			for _, x := range want[i/32*32 : min(i/32*32+32, len(want))] {
				most = max(most, math.Abs(float64(x)))
			}
			if math.Abs(float64(got[i]-want[i])) > most/250 {
				t.Fatalf("%v: number %d is %v, not %v", ref, i, got[i], want[i])
			}
		}
	}
}

func TestGGUFRefused(t *testing.T) {
	all := converted(t, openGolden(t, "mixtral"))
	file := gguftest.File("llama", all)
	for _, tt := range []struct {
		name, golden string
		files        map[string][]byte
		says         string
	}{
		{"none", "mixtral", nil, "nor a file *.gguf"},
		{"another architecture", "qwen3_moe", map[string][]byte{"m.gguf": file}, `architecture "llama"`},
		{"a family that is not read", "gpt_oss", map[string][]byte{"m.gguf": file}, "get its safetensors files"},
		{"two models", "mixtral", map[string][]byte{"a.gguf": file, "b.gguf": file}, "a.gguf and b.gguf are different models"},
		{"a shard is missing", "mixtral", map[string][]byte{"a-00001-of-00003.gguf": file, "a-00003-of-00003.gguf": file}, "a-00002-of-00003.gguf is missing"},
		{"the last is missing", "mixtral", map[string][]byte{"a-00001-of-00002.gguf": file}, "of 2 files, the first 1 are there"},
		{"a tensor twice", "mixtral", map[string][]byte{
			"a-00001-of-00002.gguf": gguftest.File("llama", all, gguftest.Split(0, 2, len(all))...), "a-00002-of-00002.gguf": file,
		}, "and in a file before it"},
		{"no tensors", "mixtral", map[string][]byte{"m.gguf": gguftest.File("llama", nil)}, `"token_embd.weight" is missing`},
		{"truncated", "mixtral", map[string][]byte{"m.gguf": file[:len(file)/2]}, "truncated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Open(ggufFolder(t, tt.golden, tt.files)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
		})
	}
	dir := ggufFolder(t, "mixtral", map[string][]byte{"m.gguf": file})
	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "of the model that it was made of") {
		t.Errorf("without config.json: error %v", err)
	}
}

// What the headers of parts say must be what their names say, and the same.
func TestGGUFPartsRefused(t *testing.T) {
	all := converted(t, openGolden(t, "olmoe"))
	n := len(all)
	for name, tt := range map[string]struct {
		second [][]byte // values of the second part
		of     string   // its architecture
		says   string
	}{
		"another model":    {gguftest.Split(1, 2, n), "llama", `m-00002-of-00002.gguf: its architecture is "llama", that of m-00001-of-00002.gguf is "olmoe"`},
		"another part":     {gguftest.Split(0, 2, n), "", "it is part 0 of 2 by its header (split.no from 0, split.count), but part 1 of 2"},
		"of another count": {gguftest.Split(1, 3, n), "", "it is part 1 of 3"},
		"other tensors":    {gguftest.Split(1, 2, n+1), "olmoe", "not " + strconv.Itoa(n+1) + " as split.tensors.count says"},
		"no part":          {nil, "", "it does not say which part"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(ggufFolder(t, "olmoe", map[string][]byte{
				"m-00001-of-00002.gguf": gguftest.File("olmoe", all[:5], gguftest.Split(0, 2, n)...),
				"m-00002-of-00002.gguf": gguftest.File(tt.of, all[5:], tt.second...),
			}))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A model may be in several files.
func TestGGUFShards(t *testing.T) {
	whole := openGolden(t, "olmoe")
	all := converted(t, whole)
	m, err := Open(ggufFolder(t, "olmoe", map[string][]byte{
		"m-00001-of-00002.gguf": gguftest.File("olmoe", all[:5], gguftest.Split(0, 2, len(all))...),
		"m-00002-of-00002.gguf": gguftest.File("", all[5:], gguftest.Split(1, 2, len(all))...),
	}))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, m)
	want, _ := whole.Floats(Ref{Role: ExpertDown, Layer: 1, Expert: 2})
	if got, err := m.Floats(Ref{Role: ExpertDown, Layer: 1, Expert: 2}); err != nil || !slices.Equal(got, want) {
		t.Errorf("an expert of the second file differs, error %v", err)
	}
}
