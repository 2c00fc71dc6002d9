// Package modeltest makes checkpoints for tests from the golden ones.
package modeltest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// FP8 quantises the projections of a checkpoint as DeepSeek-V3's are: codes
// e4m3fn with a scale for each block of 128 by 128, which maps its largest weight
// to the largest code. It returns two folders: the packed checkpoint, and one with
// the same numbers in float32.
func FP8(t testing.TB, from string) (packed, plain string) {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it is only read
	var codes, numbers []safetensors.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		if len(x.Shape) != 2 || !strings.Contains(name, ".layers.") || strings.HasSuffix(name, ".gate.weight") {
			codes, numbers = append(codes, x), append(numbers, x)
			continue
		}
		c, scales, n := quantise(t, x)
		codes, numbers = append(codes, c, scales), append(numbers, n)
	}
	quantised := map[string]any{
		"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": []int{block, block}, "activation_scheme": "dynamic",
	}
	return write(t, from, codes, quantised), write(t, from, numbers, nil)
}

const block = 128

func quantise(t testing.TB, x safetensors.Tensor) (codes, scales, numbers safetensors.Tensor) {
	t.Helper()
	w, err := x.Floats()
	if err != nil {
		t.Fatal(err)
	}
	n, k := x.Shape[0], x.Shape[1]
	wide := (k + block - 1) / block
	grid := make([]float32, (n+block-1)/block*wide)
	at := func(i int) *float32 { return &grid[i/k/block*wide+i%k/block] }
	for i, v := range w {
		*at(i) = max(*at(i), float32(math.Abs(float64(v)))/448)
	}
	codes = safetensors.Tensor{Name: x.Name, DType: safetensors.E4M3, Shape: x.Shape}
	for i, v := range w {
		codes.Data = append(codes.Data, nearest(float64(v)/float64(*at(i))))
	}
	scales = floats(x.Name+"_scale_inv", grid, len(grid)/wide, wide)
	return codes, scales, floats(x.Name, ref.FP8Weights(codes.Data, grid, n, k), n, k)
}

func floats(name string, values []float32, shape ...int) safetensors.Tensor {
	t := safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

// nearest returns the code whose value is nearest to v, the even one of two.
func nearest(v float64) byte {
	const largest = 0x7e
	size := math.Abs(v)
	c := min(sort.Search(largest, func(c int) bool { return ref.FP8(byte(c)) >= size }), largest)
	if c > 0 {
		below, above := size-ref.FP8(byte(c-1)), ref.FP8(byte(c))-size
		if below < above || below == above && c%2 == 1 {
			c--
		}
	}
	if v < 0 {
		c |= 0x80
	}
	return byte(c)
}

// write makes a folder of tensors and the config, to which it adds how they are quantised.
func write(t testing.TB, from string, tensors []safetensors.Tensor, quantised any) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	config["quantization_config"] = quantised
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	var weights bytes.Buffer
	if err := safetensors.Write(&weights, tensors, nil); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"config.json": data, "model.safetensors": weights.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
