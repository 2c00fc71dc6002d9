package predictor

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// sequenceOf is a row of a sequence's generated token.
func sequenceOf(sequence, tenant string, token, position uint32) *pb.Run {
	return &pb.Run{Sequence: sequence, Tenant: tenant, Tokens: []uint32{token}, FirstPosition: position, Phase: pb.Phase_PHASE_DECODE}
}

// serve takes a step of one row through all gates.
func (d *desk) serve(number uint64, run *pb.Run, seed uint64) (chosen [][]int32) {
	d.step(number, run)
	for i, layer := range d.layers {
		_, experts := d.pass(number, layer, 1, seed+uint64(i))
		chosen = append(chosen, slices.Clone(experts))
	}
	return chosen
}

// What a token's rows have asked for again and again is foretold before the first layer, each
// expert with the chance that it has by then.
func TestLearns(t *testing.T) {
	d := newDesk(t, Maps{Chances: Learned})
	var chosen [][]int32
	for i := range uint64(30) {
		chosen = d.serve(i+1, sequenceOf("s", "a", 5, uint32(i)), 11)
	}
	d.hints()
	d.step(31, sequenceOf("s", "a", 5, 30))
	all := d.hints()
	for _, e := range chosen[0] {
		host := "odd"
		if e%2 == 0 {
			host = "even"
		}
		if got := wanted(all[host], d.layers[0]); !slices.Contains(got, e) {
			t.Errorf("of layer %d host %s is told %v; rows use %v", d.layers[0], host, got, chosen[0])
		}
	}
	d.pass(31, d.layers[0], 1, 11)
	if all := d.hints(); len(all) == 0 {
		t.Error("nothing is foretold of the next layer")
	}
}

// A row that has passed a gate tells what the sequence's next row will ask of that layer: what it used
// itself more than others, where sequences use the same again and again.
func TestTellsNextStep(t *testing.T) {
	d := newDesk(t, Maps{Chances: Learned})
	var chosen [][]int32
	for i := range uint64(30) {
		d.hints()
		chosen = d.serve(i+1, sequenceOf("s", "a", 5, uint32(i)), 11)
	}
	told, loads := map[uint32]map[uint32]float32{}, map[uint32]int{}
	for _, hints := range d.hints() {
		for _, h := range hints {
			for _, l := range h.Layers {
				for i, u := range l.Unit {
					if l.StepsAhead == 1 {
						for _, u := range l.Unit[:l.Wanted] {
							if at := slices.Index(d.layers, int(l.Layer)); at < 0 || !slices.Contains(chosen[at], int32(u)) {
								t.Errorf("expert %d of layer %d is to be loaded for the next step", u, l.Layer)
							}
							loads[l.Layer]++
						}
						if told[l.Layer] == nil {
							told[l.Layer] = map[uint32]float32{}
						}
						told[l.Layer][u] = l.Probability[i]
					}
				}
			}
		}
	}
	if first := uint32(d.layers[0]); len(loads) != 1 || loads[first] == 0 {
		t.Errorf("behind the last layer the next step's first one is near; to be loaded are %v", loads)
	}
	for at, layer := range d.layers {
		of := told[uint32(layer)]
		if len(of) != d.d.Shape.Experts {
			t.Fatalf("of layer %d hosts are told %v", layer, of)
		}
		for e, p := range of {
			if used := slices.Contains(chosen[at], int32(e)); used != (p > 0.5) {
				t.Errorf("layer %d, expert %d: used %v, and %v is said of the next step", layer, e, used, p)
			}
		}
	}
}

// Hosts are told what a gate has chosen of all experts, when all rows of a step have passed it.
func TestTellsChosen(t *testing.T) {
	d := newDesk(t, Maps{Chances: Learned})
	d.step(1, sequenceOf("s", "a", 5, 0))
	_, chosen := d.pass(1, d.layers[0], 1, 11)
	told := d.chosen()
	for e := range uint32(d.d.Shape.Experts) {
		want := float32(0)
		if slices.Contains(chosen, int32(e)) {
			want = 1
		}
		if got, ok := told[e]; !ok || got != want {
			t.Errorf("expert %d: %v is said (%v), want %v of %v", e, got, ok, want, chosen)
		}
	}
	d.step(2, sequenceOf("s", "a", 5, 1), sequenceOf("r", "a", 6, 0))
	d.pass(2, d.layers[0], 1, 11)
	if told := d.chosen(); len(told) > 0 {
		t.Errorf("one of two rows has passed, and %v is said", told)
	}
}

// chosen are the probabilities of the layer that steps have reached, by expert, of the hints that were sent so far.
func (d *desk) chosen() map[uint32]float32 {
	told := map[uint32]float32{}
	for _, hints := range d.hints() {
		for _, h := range hints {
			for _, l := range h.Layers {
				for i, u := range l.Unit {
					if l.StepsAhead == 0 && l.Layer+1 == h.Reached {
						told[u] = l.Probability[i]
					}
				}
			}
		}
	}
	return told
}

// What one tenant's rows teach, another one's hints do not tell; nor does anything that is left of
// a tenant who is forgotten.
func TestLearnsApart(t *testing.T) {
	alone, beside := newDesk(t, Maps{Chances: Learned}), newDesk(t, Maps{Chances: Learned})
	for i := range uint64(12) {
		alone.serve(i+1, sequenceOf("s", "b", 5, uint32(i)), 11)
		beside.serve(2*i+1, sequenceOf("r", "a", 5, uint32(i)), 77)
		beside.serve(2*i+2, sequenceOf("s", "b", 5, uint32(i)), 11)
	}
	one, other := alone.chances["b"], beside.chances["b"]
	for target := range alone.layers {
		for _, c := range []*chances{one, other} {
			if c == nil {
				t.Fatal("nothing is learned")
			}
		}
		q := &query{sequence: "s", token: 5}
		a, err := alone.guess(one, q, -1, target, noMatch, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := beside.guess(other, q, -1, target, noMatch, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Said(), b.Said()) {
			t.Errorf("layer %d: beside another tenant %v is said, alone %v", target, b.Said(), a.Said())
		}
	}
}

// noMatch is no map.
var noMatch expertmap.Match
