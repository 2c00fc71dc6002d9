package offload

import (
	"fmt"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Texts are how many there are, and how long.
type Texts struct {
	Before, Served int
	Prompt, Answer int // rows
	Domains        int
}

// DefaultTexts are split 7 to 3, as the paper's; the rest is assumed.
func DefaultTexts() Texts { return Texts{Before: 28, Served: 12, Prompt: 64, Answer: 32, Domains: 5} }

// Check says what is wrong with texts.
func (t Texts) Check() error {
	if t.Before < 2 || t.Served < 1 || t.Prompt < 1 || t.Answer < 1 || t.Domains < 1 {
		return fmt.Errorf("%d texts of %d domains come before %d that are served, with prompts of %d tokens and answers of %d; there must be 2 before and 1 of all else", t.Before, t.Domains, t.Served, t.Prompt, t.Answer)
	}
	return nil
}

// Synthetic are texts of a model, by a generator with these parameters.
func Synthetic(m Model, p routing.StateParams, t Texts, seed uint64) (Traffic, error) {
	if err := t.Check(); err != nil {
		return Traffic{}, err
	}
	g, err := routing.NewStates(m.Shape, p, seed)
	if err != nil {
		return Traffic{}, fmt.Errorf("the routing of %s: %w", m.Name, err)
	}
	of := Traffic{Model: m, Gates: &g.Gates}
	for id := range uint64(t.Before + t.Served) {
		domain := int(splitmix.Mix(seed^splitmix.Mix(id+1)) % uint64(t.Domains))
		rows := g.Rows(routing.Text{ID: id, Domain: domain, Rows: t.Prompt + t.Answer}, t.Prompt)
		if id < uint64(t.Before) {
			of.Before = append(of.Before, rows)
		} else {
			of.Served = append(of.Served, rows)
		}
	}
	return of, nil
}
