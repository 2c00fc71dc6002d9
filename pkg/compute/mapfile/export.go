package mapfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// Format is what the metadata of an exported file say it is.
const Format = "switchyard-maps-export-1"

// Exported are a tenant's maps as a file has them.
type Exported struct {
	expertmap.Shape
	Tenant, Model string
	Maps          []expertmap.Map // the oldest first
}

// Export writes a tenant's maps to the file at path, as the store holds them, and returns
// how many they are. Layers whose sums rounding has moved are divided by them.
func Export(path string, s *expertmap.Store, tenant string) (n int, err error) {
	var maps, embeddings []byte
	for owner, m := range s.All() {
		if owner == tenant {
			for row := range slices.Chunk(m.Probabilities, s.Experts) {
				normalise(row)
			}
			maps, embeddings = appendFloats(maps, m.Probabilities), appendFloats(embeddings, m.Embedding)
			n++
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("tenant %q has no expert maps to export", tenant)
	}
	tensors := []safetensors.Tensor{{Name: "maps", DType: safetensors.F32, Shape: []int{n, s.Layers, s.Experts}, Data: maps}}
	if s.Embedding > 0 {
		tensors = append(tensors, safetensors.Tensor{Name: "embeddings", DType: safetensors.F32, Shape: []int{n, s.Embedding}, Data: embeddings})
	}
	meta := map[string]string{"format": Format, "tenant": tenant, "model": s.Model, "top_k": strconv.Itoa(s.TopK)}
	return n, whole(path, func(w io.Writer) error { return safetensors.Write(w, tensors, meta) })
}

// moved is how far from 1 the sums of float32 do not get.
const moved = 1e-4

func normalise(row []float32) {
	sum := 0.0
	for _, p := range row {
		sum += float64(p)
	}
	if math.Abs(sum-1) <= moved || sum == 0 {
		return
	}
	for e := range row {
		row[e] = float32(float64(row[e]) / sum)
	}
}

func appendFloats(b []byte, x []float32) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// Import reads an exported file. Whether its values can be is for a store to say.
func Import(path string) (*Exported, error) {
	file, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("importing expert maps: %w", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	x, err := parse(file)
	if err != nil {
		return nil, fmt.Errorf("importing expert maps %s: %w", path, err)
	}
	return x, nil
}

func parse(file *safetensors.File) (*Exported, error) {
	meta := file.Metadata()
	if meta["format"] != Format {
		return nil, fmt.Errorf("the metadata's format is %q, not %q: it is no file of switchyard maps export", meta["format"], Format)
	}
	k, err := strconv.Atoi(meta["top_k"])
	if err != nil {
		return nil, fmt.Errorf("reading the metadata's top_k: %w", err)
	}
	maps, shape, err := floats(file, "maps", 3)
	if err != nil {
		return nil, err
	}
	x := &Exported{Shape: expertmap.Shape{Layers: shape[1], Experts: shape[2], TopK: k}, Tenant: meta["tenant"], Model: meta["model"]}
	var embeddings []float32
	if slices.Contains(file.Names(), "embeddings") {
		of := shape[0]
		if embeddings, shape, err = floats(file, "embeddings", 2); err != nil {
			return nil, err
		}
		if shape[0] != of {
			return nil, fmt.Errorf("it has %d maps and %d embeddings", of, shape[0])
		}
		x.Embedding = shape[1]
	}
	size := x.Layers * x.Experts
	for i := range len(maps) / size {
		x.Maps = append(x.Maps, expertmap.Map{
			Embedding: embeddings[i*x.Embedding : (i+1)*x.Embedding], Probabilities: maps[i*size : (i+1)*size],
		})
	}
	return x, nil
}

// floats returns a tensor's values, of so many dimensions none of which is 0.
func floats(file *safetensors.File, name string, dimensions int) (values []float32, shape []int, err error) {
	t, ok := file.Tensor(name)
	if !ok || len(t.Shape) != dimensions || slices.Contains(t.Shape, 0) {
		return nil, nil, fmt.Errorf("tensor %q must be there with %d dimensions, none of them 0; it has %v", name, dimensions, t.Shape)
	}
	if values, err = t.Floats(); err != nil {
		return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	return values, t.Shape, nil
}
