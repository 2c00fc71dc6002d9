package batched

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

func lambda(t *testing.T) Conditions {
	t.Helper()
	p, err := profiles.OpenPlatform("lambda")
	if err != nil {
		t.Fatal(err)
	}
	return Conditions{Platform: p.Cost()}
}

// Every shape can be rented, by both planners, and its cluster computes.
func TestShapes(t *testing.T) {
	c := lambda(t)
	for _, name := range append(Names(), "bert_moe-4:2") {
		s, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		y, err := s.System(c, 10240)
		if err != nil || y.Functions.Replicas != 8 || len(y.Functions.Sizes) != 14 || y.Functions.Payload != 6<<20 || y.Between <= 0 || y.Tail <= 0 {
			t.Errorf("%s: %+v, %v", name, y, err)
		}
		if r, err := s.Remoe(c); err != nil || r.Layers != s.Layers {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := Open("bert_moe-4:2")
	if err != nil || s.TopK != 2 || s.Expert() != 18874368 {
		t.Errorf("%+v, %v", s, err)
	}
	loads := slices.Repeat([][]float64{{1000, 0, 10, 0}}, s.Layers)
	y, err := s.System(c, 1010)
	if err != nil {
		t.Fatal(err)
	}
	plain, fused, fitted := s.Cluster(c, false, false).Serve(y, loads), s.Cluster(c, true, false).Serve(y, loads), s.Cluster(c, false, true).Serve(y, loads)
	if !(fused.Seconds < plain.Seconds && fitted.Cost < plain.Cost && fitted.Seconds == plain.Seconds) {
		t.Errorf("%+v, fused %+v, fitted %+v", plain, fused, fitted)
	}
	for _, bad := range []string{"gpt9", "bert_moe-4:5", "bert_moe-4:x"} {
		if _, err := Open(bad); err == nil {
			t.Errorf("%s is a shape", bad)
		}
	}
}

// The same seed has the same text; tokens foretell experts, and position and key with them more.
func TestWrite(t *testing.T) {
	s, err := Open("bert_moe-4")
	if err != nil {
		t.Fatal(err)
	}
	s.Layers = 2
	text, err := s.Write(200, 1)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Write(200, 1); err != nil || !reflect.DeepEqual(again, text) {
		t.Fatalf("the second time it is another text, %v", err)
	}
	split, err := text.Split(0.9, 1000, 1, 3, 1)
	if err != nil || len(split.Learn) != 1 || len(split.Test) != 3 || split.Table.Samples != 180 {
		t.Fatalf("%+v, %v", split, err)
	}
	wrong := map[string]float64{}
	for _, r := range split.Test {
		if r.Len() != 1000 {
			t.Errorf("a batch has %d rows", r.Len())
		}
		came, err := split.Table.Real(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range bayes.Methods() {
			by, err := bayes.New(split.Table, m, split.Frequency)
			if err != nil {
				t.Fatal(err)
			}
			loads, err := by.Loads(r)
			if err != nil {
				t.Fatal(err)
			}
			rows, _ := bayes.Difference(came, loads)
			wrong[m.Name] += rows / 3
		}
	}
	if !(wrong["lina+expected"] < wrong["average"]+50 && wrong["bayes"] < 250) {
		t.Errorf("rows wrong of an expert: %v", wrong)
	}
}

func TestRefused(t *testing.T) {
	s, err := Open("bert_moe-4")
	if err != nil {
		t.Fatal(err)
	}
	s.Layers = 1
	if _, err := s.Write(0, 1); err == nil || !strings.Contains(err.Error(), "0 sequences") {
		t.Errorf("%v", err)
	}
	text, err := s.Write(101, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := text.Split(1, 10, 1, 1, 1); err == nil || !strings.Contains(err.Error(), "must be between 0 and 1") {
		t.Errorf("%v", err)
	}
	if _, err := text.Split(0.99, 10, 1, 1, 1); !errors.Is(err, ErrShort) {
		t.Errorf("%v", err)
	}
	if _, err := text.Split(0.5, 10, 1, 1, 1); !errors.Is(err, bayes.ErrTable) {
		t.Errorf("%v", err)
	}
	if got := text.Batch([]int{0, 1}, 200).Len(); got != 200 {
		t.Errorf("%d rows", got)
	}
}

// A text's first experts alone are those of a model that is top-1.
func TestFirst(t *testing.T) {
	text := &Texts{Header: bayes.Header{TopK: 2}, Sequences: []*bayes.Rows{{Tokens: []uint32{5, 6}, Experts: [][]uint16{{1, 2, 3, 0}}}}}
	first := text.First()
	if first.TopK != 1 || !slices.Equal(first.Sequences[0].Experts[0], []uint16{1, 3}) || len(text.Sequences[0].Experts[0]) != 4 {
		t.Errorf("%+v of %+v", first.Sequences[0], text.Sequences[0])
	}
}
