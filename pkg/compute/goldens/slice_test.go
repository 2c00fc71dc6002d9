package goldens

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// What make.py writes is sliced by this:
//
//	go test ./pkg/compute/goldens -run TestSliced -whole DIR
//
// DIR has a folder with golden.safetensors for each checkpoint that is to be written.
var whole = flag.String("whole", "", "write the golden outputs anew, from the whole ones below this `folder`")

// outputs are where golden outputs are committed, by their folder's name.
func outputs() map[string]string {
	all := map[string]string{"demo": filepath.Join(root(), "models/demo")}
	for _, name := range Names() {
		all[name] = filepath.Join(root(), committed, name)
	}
	return all
}

// The committed outputs are slices of the whole ones, where these are at hand.
func TestSliced(t *testing.T) {
	from := *whole
	if from == "" {
		from = "../../../../shared/golden"
	}
	for name, dir := range outputs() {
		path := filepath.Join(from, name, "golden.safetensors")
		if *whole == "" && name == "gpt_oss-mxfp4" {
			continue // its outputs were computed anew: testdata/golden/README.md
		}
		if _, err := os.Stat(path); err != nil {
			t.Logf("the whole outputs of %s are not here: %v", name, err)
			continue
		}
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		tensors, err := Slice(f)
		if err != nil {
			t.Fatal(name, err)
		}
		var plain, packed bytes.Buffer
		if err := safetensors.Write(&plain, tensors, f.Metadata()); err != nil {
			t.Fatal(err)
		}
		if err := safetensors.Pack(&packed, plain.Bytes()); err != nil {
			t.Fatal(err)
		}
		_ = f.Close() // only read
		to := filepath.Join(dir, "golden.safetensors"+safetensors.PackedSuffix)
		if *whole != "" {
			if err := os.WriteFile(to, packed.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, packed.Bytes()) {
			t.Errorf("%s is no slice of %s: %v", to, path, err)
		}
	}
}

// Every checkpoint keeps outputs at the first and the last position, of all sequences and layers,
// and behind each window's edge.
func TestKeptPositions(t *testing.T) {
	for name, dir := range outputs() {
		f, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		ids, _ := f.Tensor("input_ids")
		if decoder, ok := f.Tensor("decoder_input_ids"); ok {
			ids = decoder
		}
		logits, _ := f.Tensor("logits")
		positions, err := Positions(f, logits.Shape[1])
		if err != nil || logits.Shape[0] != ids.Shape[0] || positions[0] != 0 || positions[len(positions)-1] != ids.Shape[1]-1 || !slices.IsSorted(positions) {
			t.Errorf("%s has logits %v at %v of %v: %v", name, logits.Shape, positions, ids.Shape, err)
		}
		if !slices.Contains(positions, 16) || len(positions) < 5 {
			t.Errorf("%s has outputs at %v alone", name, positions)
		}
		if p, ok := f.Tensor("prefix_logits"); ok && (p.Shape[1] != 2 || positions[p.Shape[1]-1] != prefix-1) {
			t.Errorf("%s has prefix_logits %v at %v", name, p.Shape, positions)
		}
		_ = f.Close() // only read
	}
}

func TestRows(t *testing.T) {
	if got := Rows([]float32{0, 1, 2, 3, 4, 5}, 2, []int{0, 2}); !slices.Equal(got, []float32{0, 1, 4, 5}) {
		t.Error(got)
	}
}
