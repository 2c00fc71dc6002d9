package checkpoint

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Families whose golden checkpoints groups do not divide have copies, too, where their widths are multiples of 32.
func TestOtherFamilies(t *testing.T) {
	for _, name := range []string{"deepseek_v2", "deepseek_v3", "llama4", "llama4-interleaved", "olmoe", "qwen2_moe", "qwen2_moe-mixed", "qwen3_moe"} {
		t.Run(name, func(t *testing.T) {
			dir := widened(t, name)
			for at, rows := range map[model.Precision]model.Precision{model.Q8: model.W8A8, model.Q4: model.W4A8} {
				to := copyIn(t, modeltest.Open(t, dir), at, 1<<30)
				for _, way := range [][2]model.Precision{{at, model.AsStored}, {rows, rows}} {
					if want, got := logits(t, modeltest.Open(t, dir), way[0]), logits(t, modeltest.Open(t, to), way[1]); !slices.Equal(got, want) {
						t.Errorf("in %q it has other logits than the model in %q", way[1], way[0])
					}
				}
			}
		})
	}
}

// widened is a checkpoint of random weights as a golden one's, whose widths and ranks are the next multiples of 32.
func widened(t *testing.T, name string) string {
	t.Helper()
	from, dir := goldens.Dir(name), t.TempDir()
	data, err := os.ReadFile(filepath.Join(from, Config))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	widen(config)
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	spec, _, err := model.ParseSpec(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, random := modeltest.Open(t, from), rand.New(rand.NewPCG(1, 2))
	var all []safetensors.Tensor
	for ref, x := range m.Stored() {
		x.Shape = reshaped(x.Shape, m.Spec.Shape(ref), spec.Shape(ref))
		x.DType, x.Data = safetensors.BF16, make([]byte, 2*x.Len())
		for i := range x.Len() {
			half := uint16(random.Uint32()&0x807f) | uint16(118+random.IntN(6))<<7
			x.Data[2*i], x.Data[2*i+1] = byte(half), byte(half>>8)
		}
		all = append(all, x)
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.Write(f, all, nil); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if err := WriteSide(dir, Config, data); err != nil {
		t.Fatal(err)
	}
	return dir
}

func widen(config map[string]any) {
	for key, value := range config {
		switch v := value.(type) {
		case float64:
			if strings.Contains(key, "intermediate_size") || strings.HasSuffix(key, "lora_rank") {
				config[key] = int(v+31) / 32 * 32
			}
		case map[string]any:
			widen(v)
		}
	}
}

// reshaped is a stored shape, of a tensor whose shape as a role has it becomes another.
func reshaped(stored, was, is []int) []int {
	if slices.Equal(was, is) {
		return stored
	}
	if len(was) == 1 {
		return is
	}
	out := slices.Clone(stored)
	n, k := len(out)-2, len(out)-1
	if stored[k] != was[1] || stored[n]%was[0] != 0 { // inputs first
		n, k = k, n
	}
	out[n], out[k] = stored[n]/was[0]*is[0], is[1]
	return out
}
