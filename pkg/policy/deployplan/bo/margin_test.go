package bo

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
)

// A plan that is kept has, by rows as they come, at most the limit in the mean of batches drawn, wherever some share of it has a
// plan that does; it costs no less than the plan by all of the limit, and the same seed gives the same plan.
func TestKept(t *testing.T) {
	p := problem(t)
	for i := range p.Batches {
		p.Batches[i].Rows = computed(1000+uint64(i), rows)
	}
	plan := func(loads [][]float64, seconds float64) (*scatter.Plan, error) {
		r, err := ods.Exact(p.System, loads, seconds, ods.Settings{Betas: 4, States: 100})
		if err != nil {
			return nil, err
		}
		return &r.Plan, nil
	}
	loads, err := p.Foretell(nil)
	if err != nil {
		t.Fatal(err)
	}
	come, err := p.drawn(3)
	if err != nil {
		t.Fatal(err)
	}
	_, err = plan(loads, 0)
	var no *ods.Infeasible
	if !errors.As(err, &no) {
		t.Fatal(err)
	}
	shares := map[bool]int{}
	for _, times := range []float64{1.3, 1.6, 2, 3, 1000} {
		limit := times * no.Least
		whole, err := plan(loads, limit)
		if err != nil {
			t.Fatal(err)
		}
		best, share, err := p.Kept(limit, 3, plan)
		if err != nil {
			t.Fatal(err)
		}
		shares[share < 1]++
		if took := p.latency(best, come); took > limit {
			t.Errorf("%v times the least: it takes %v s of %v, by a share of %v", times, took, limit, share)
		}
		if a, b := p.System.Serve(best, loads), p.System.Serve(whole, loads); a.Cost < b.Cost*(1-1e-9) {
			t.Errorf("%v times the least: it costs %v, and %v with all of the limit", times, a.Cost, b.Cost)
		}
		again, _, err := p.Kept(limit, 3, plan)
		if err != nil || !slices.EqualFunc(best.Layers, again.Layers, func(a, b scatter.Layer) bool {
			return a.Mode == b.Mode && a.Beta == b.Beta && slices.Equal(a.Experts, b.Experts)
		}) {
			t.Errorf("the same seed gives %+v and %+v, %v", best, again, err)
		}
	}
	if shares[true] == 0 || shares[false] == 0 {
		t.Errorf("a margin was needed so often: %v", shares)
	}
	if _, _, err := p.Kept(no.Least/2, 3, plan); !errors.Is(err, ods.ErrInfeasible) {
		t.Errorf("%v", err)
	}
	p.Batches[0].Rows.Experts = nil
	if _, _, err := p.Kept(no.Least*2, 3, plan); err == nil || !strings.Contains(err.Error(), "learning batch 0") {
		t.Errorf("rows without experts: %v", err)
	}
}

// Sequences begin where positions do not ascend.
func TestStarts(t *testing.T) {
	if got := starts(computed(1, 20)); !slices.Equal(got, []int{0, 8, 16, 20}) {
		t.Errorf("%v", got)
	}
}
