package arena

import (
	"errors"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// expected is ODS's plan by expected counts of tokens, the best of what foretells rows here.
func (l *batchLab) expected() error {
	m, err := bayes.MethodOf("lina+expected")
	if err != nil {
		return err
	}
	began := time.Now()
	foretold, err := l.problem(m).Foretell(nil)
	if err != nil {
		return err
	}
	plan, err := l.plan(foretold)
	if err == nil {
		l.bills("ods-expected", plan, time.Since(began), foretold)
	}
	return err
}

// kept is the cheapest plan by expected counts of tokens whose real rows keep the limit, as far as learning batches tell.
func (l *batchLab) kept() error {
	m, err := bayes.MethodOf("lina+expected")
	if err != nil {
		return err
	}
	began, p := time.Now(), l.problem(m)
	plan, share, err := p.Kept(l.limit, l.seed, func(loads [][]float64, seconds float64) (*scatter.Plan, error) {
		r, err := ods.Exact(l.system, loads, seconds, ods.Default())
		if err != nil {
			return nil, err
		}
		return &r.Plan, nil
	})
	if errors.Is(err, ods.ErrInfeasible) {
		l.add(l.line(partFigure13, boodsPlus))
		return nil
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	foretold, err := p.Foretell(nil) // for the line's error alone
	if err != nil {
		return err
	}
	l.bills(boodsPlus, plan, took, foretold)
	l.lines[len(l.lines)-1].Share = share
	return nil
}
