package chosen

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/bo"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// recorded has two rows in each of many sequences; the key of the second is the first.
func recorded(t *testing.T, keys bool, far int32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r")
	w, err := recording.Create(path, recording.Header{Model: "abc", Domains: []string{"x"}, Layers: []int{3}, Experts: 4, TopK: 2, Rows: 2 * bayes.LeastSamples, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	for i := range bayes.LeastSamples {
		at := 2 * i
		err := errors.Join(
			w.Describe(at, []recording.Row{{Sequence: i, Position: 0, Token: 5}, {Sequence: i, Position: 1, Token: 6}}),
			w.Layer(0, at, []int32{0, 1, 2, 3}, nil))
		if keys {
			err = errors.Join(err, w.Key(0, at, []int32{0, far}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A recording's rows have the tokens of their keys; a table of them is the same when it is read.
func TestRead(t *testing.T) {
	texts, err := Read(recorded(t, true, 0), 10)
	if err != nil || len(texts.Sequences) != bayes.LeastSamples || texts.Model != "abc" || texts.Vocab != 10 {
		t.Fatalf("%+v, %v", texts, err)
	}
	one := texts.Sequences[7]
	if !slices.Equal(one.Tokens, []uint32{5, 6}) || !slices.Equal(one.Positions, []uint32{0, 1}) || !slices.Equal(one.Keys[0], []uint32{5, 5}) || !slices.Equal(one.Experts[0], []uint16{0, 1, 2, 3}) {
		t.Errorf("%+v", one)
	}
	first, _ := texts.Parts(1, 1)
	table, err := texts.Table(first)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t")
	digest, err := WriteTable(path, table)
	if err != nil {
		t.Fatal(err)
	}
	again, same, err := mapfile.ReadTable(path, "abc")
	if err != nil || same != digest || again.Pairs() != table.Pairs() || table.Pairs() != 4 {
		t.Errorf("%+v, %v", again, err)
	}
	if _, _, err := mapfile.ReadTable(path, "other"); !errors.Is(err, bayes.ErrTable) || !strings.Contains(err.Error(), "build one of a recording of this model") {
		t.Errorf("%v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := Read(recorded(t, false, 0), 10); !errors.Is(err, ErrKeys) {
		t.Errorf("%v", err)
	}
	if _, err := Read(recorded(t, true, 9), 10); err == nil || !strings.Contains(err.Error(), "key at position 9, which its sequence does not have") {
		t.Errorf("%v", err)
	}
	if _, err := Read("none", 10); err == nil {
		t.Error("a missing recording is read")
	}
	if _, _, err := mapfile.ReadTable("none", "abc"); err == nil {
		t.Error("a missing table is read")
	}
}

func TestSearchFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if s, err := ReadSearch(path, "a"); err != nil || s != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	state := bo.State{Settings: bo.Default(), Trials: []bo.Trial{{Cost: 0.1, Pairs: []bayes.Pair{{Layer: 1, Count: 3}}, Loads: [][]float64{{1.5}}}}, Drawn: 1<<63 + 1}
	if err := WriteSearch(path, "a", &state); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSearch(path, "a")
	if err != nil || s.Drawn != state.Drawn || s.Trials[0].Cost != 0.1 || s.Trials[0].Pairs[0] != state.Trials[0].Pairs[0] || s.Settings != state.Settings {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ReadSearch(path, "b"); err == nil || !strings.Contains(err.Error(), "is of another table, recording or settings") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSearch(path, "a"); err == nil || !strings.Contains(err.Error(), "remove the file to begin anew") {
		t.Errorf("%v", err)
	}
}
