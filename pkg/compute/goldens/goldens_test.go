package goldens

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// The generator is the one of the algorithm's authors: the 10,000th number of seed 5489.
func TestTwister(t *testing.T) {
	d := &draws{from: newTwister(5489)}
	if got := d.slice(9999, 1)[0]; got != 4123659995 {
		t.Errorf("the 10,000th number is %d", got)
	}
}

// Every checkpoint can be made, which checks its digest, and is made once.
func TestMake(t *testing.T) {
	if len(Names()) < 18 {
		t.Errorf("only %v", Names())
	}
	to := t.TempDir()
	for _, name := range Names() {
		first, err := Make(filepath.Join(root(), committed, name), to)
		if err != nil {
			t.Fatal(name, err)
		}
		f, err := safetensors.Open(filepath.Join(first, weightsFile))
		if err != nil {
			t.Fatal(name, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if again, err := Make(filepath.Join(root(), committed, name), to); err != nil || again != first || filepath.Base(again) != name {
			t.Errorf("%s is in %s, and again in %s, %v", name, first, again, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(to, "*/unfinished-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// "make golden" calls this, for programs that are given the folders.
func TestDir(t *testing.T) {
	for _, name := range Names() {
		if filepath.Base(Dir(name)) != name {
			t.Errorf("%s is in %s", name, Dir(name))
		}
	}
}

// Of the same seed, these are the weights that torch drew. They are compared where the
// originals are at hand.
func TestOriginals(t *testing.T) {
	const originals = "../../../../shared/golden"
	if _, err := os.Stat(originals); err != nil {
		t.Skip("the original checkpoints are kept outside the repository:", err)
	}
	for _, name := range Names() {
		want, err := safetensors.Open(filepath.Join(originals, name, weightsFile))
		if err != nil {
			t.Fatal(err)
		}
		got, err := safetensors.Open(filepath.Join(Dir(name), weightsFile))
		if err != nil {
			t.Fatal(err)
		}
		if g, w := got.Names(), want.Names(); !slices.Equal(slices.Sorted(slices.Values(g)), slices.Sorted(slices.Values(w))) {
			t.Fatalf("%s has the tensors %v, not %v", name, g, w)
		}
		for _, tensor := range want.Names() {
			w, _ := want.Tensor(tensor)
			g, _ := got.Tensor(tensor)
			if w.DType != g.DType || !slices.Equal(w.Shape, g.Shape) || string(w.Data) != string(g.Data) {
				t.Errorf("%s: %s differs", name, tensor)
			}
		}
		_, _ = got.Close(), want.Close() // only read
	}
}

func TestDrawRefusals(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"no JSON", `{`, "reading weights.json.gz"},
		{"another sum", `{"seed":1,"sha256":"00","tensors":[{"name":"a","shape":[16],"at":0,"scale":[1]}]}`, "have the SHA-256"},
	} {
		if _, err := draw([]byte(tt.data)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
