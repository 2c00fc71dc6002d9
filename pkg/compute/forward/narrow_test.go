package forward

import (
	"context"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// countedMoE counts the rows of each layer.
type countedMoE struct {
	MoE
	hidden int
	rows   []int
}

func (c *countedMoE) Start(ctx context.Context, layer int, x []float32) (Pending, error) {
	c.rows = append(c.rows, len(x)/c.hidden)
	return c.MoE.Start(ctx, layer, x)
}

// Where the last layer leaves out rows that nobody wants, logits have the same bits, also those of later rows that see
// what was left out, and experts have no more rows than are wanted.
func TestOnlyWanted(t *testing.T) {
	for _, name := range []string{"mixtral", "mixtral-window", "qwen2_moe", "qwen2_moe-mixed", "deepseek_v2", "deepseek_v3", "gpt_oss", "llama4"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, modeltest.Golden(t, name))
			var want []float32
			for _, only := range []bool{false, true} {
				s := r.step(tensor.BF16)
				counted := &countedMoE{MoE: s.MoE, hidden: r.m.Spec.Hidden}
				s.MoE, s.OnlyWanted = counted, only
				got := wantedLogits(t, s, r)
				if !only {
					want = got
				} else if !same(got, want) {
					t.Error("other bits of logits")
				}
				if want := rowsOfExperts(&r.m.Spec, only); !slices.Equal(counted.rows, want) {
					t.Errorf("experts have had %v rows, want %v", counted.rows, want)
				}
			}
		})
	}
}

// rowsOfExperts are those of the steps of wantedLogits.
func rowsOfExperts(spec *model.Spec, only bool) (rows []int) {
	for _, step := range []struct{ rows, wanted int }{{35, 0}, {20, 3}, {2, 2}} {
		for l := range spec.Layers {
			n := step.rows
			if only && l == spec.Layers-1 {
				n = step.wanted
			}
			if spec.Layer[l].MoE && n > 0 {
				rows = append(rows, n)
			}
		}
	}
	return rows
}

// wantedLogits takes a prompt in two pieces, whose first one has no row that wants logits, beside one that comes at once and
// wants two of its rows, and then a token of either.
func wantedLogits(t *testing.T, s *Step, r *rig) (all []float32) {
	t.Helper()
	const long, short = 43, 12
	prompt := ids(long+1, r.m.Spec.Vocab)
	a, b := r.table(t, long+1), r.table(t, short+1)
	rows := func(table *kvcache.Table, from, to int, wanted ...int) (rows []Row) {
		for i := from; i < to; i++ {
			rows = append(rows, Row{Table: table, ID: prompt[i], Position: i, Logits: slices.Contains(wanted, i)})
		}
		return rows
	}
	for _, step := range [][]Row{
		rows(a, 0, 35),
		append(rows(b, 0, short, 4, short-1), rows(a, 35, long, long-1)...),
		append(rows(a, long, long+1, long), rows(b, short, short+1, short)...),
	} {
		logits, err := logitsOf(s, step)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, logits...)
	}
	return all
}

// The caller hears of the rows that have logits by their places in the step.
func TestOnlyWantedPlaces(t *testing.T) {
	r := newRig(t, modeltest.Tiny(t))
	s := r.step(tensor.F32)
	s.OnlyWanted = true
	l := r.lane(t)
	s.lane, l.atOnce = l, 2*r.m.Spec.Vocab
	table, prompt := r.table(t, 9), ids(9, r.m.Spec.Vocab)
	var rows []Row
	for i, id := range prompt {
		rows = append(rows, Row{Table: table, ID: id, Position: i, Logits: i%2 == 1})
	}
	if err := s.Run(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	var told []int
	if err := s.Logits(t.Context(), func(rows []int, _ []float32) { told = append(told, rows...) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told, []int{1, 3, 5, 7}) {
		t.Errorf("rows %v have logits", told)
	}
}
