package predictor

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever steps and rows come, in whatever order and parts, nothing panics, hosts get hints
// that they take, and a mapper that hears the same has the same maps.
func TestHearsAnything(t *testing.T) {
	for _, kind := range []string{Mean, Last, Rows} {
		one, other := newDesk(t, Maps{Prefill: kind, Embedding: Pair}), newDesk(t, Maps{Prefill: kind, Embedding: Pair})
		r := rand.New(rand.NewPCG(3, 4))
		for range 1500 {
			h := one.anything(r)
			one.hear(t.Context(), h)
			other.hear(t.Context(), heard{step: proto.CloneOf(h.step), rows: proto.CloneOf(h.rows)})
		}
		one.hints() // checks them
		if one.store.Digest() != other.store.Digest() {
			t.Errorf("%s: two that heard the same have other maps", kind)
		}
		if n := one.store.Len("a"); n == 0 {
			t.Errorf("%s: there are no maps", kind)
		}
		if n := testkit.Count(t, one.d.Telemetry.Metrics.Panics); n != 0 {
			t.Errorf("%s: %v panics", kind, n)
		}
	}
}

// anything is a step or rows of one, which fit in three cases of four.
func (d *desk) anything(r *rand.Rand) heard {
	number, owner := uint64(r.IntN(6)), []string{"a", "b"}[r.IntN(2)]
	const rowsOf = 4
	if r.IntN(4) == 0 {
		s := &pb.Step{Owner: owner, Step: number + uint64(r.IntN(40)), Runs: runs("a", 1, uint32(r.IntN(3)))}
		s.Runs = append(s.Runs, &pb.Run{Sequence: "p", Tokens: []uint32{1, uint32(r.IntN(3))}, Phase: pb.Phase_PHASE_PREFILL, Tenant: "a"})
		if r.IntN(20) == 0 {
			s.Runs = s.Runs[:r.IntN(3)]
		}
		d.number = s.Step
		return heard{step: s}
	}
	h := rows(d.d, uint64(r.IntN(9)), rowsOf)
	from := r.IntN(rowsOf)
	if r.IntN(3) > 0 {
		from = 0
	}
	h = cutRows(h, from, rowsOf)
	h.Key.Owner, h.Key.Epoch, h.Key.Step, h.Key.Layer = owner, 0, d.number, uint32(d.layers[r.IntN(len(d.layers))])
	if r.IntN(30) == 0 {
		h.Key.Part = 9
	}
	return heard{rows: h}
}
