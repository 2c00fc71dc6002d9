// Package maps builds stores of expert maps from recordings, and measures on other
// sequences of the same recording what such a store foretells.
//
// A recording has the inputs of gates, of which the model's gates make the probabilities
// again, and tokens, of which its embedding layer makes embeddings. A prompt is one step,
// and so is each row of its answer.
package maps

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// Of says what stands for the rows of a prompt, or of a context.
type Of string

// What may stand for rows.
const (
	Last Of = "last" // the last one
	Mean Of = "mean" // their mean; for embeddings in decode one that decays
	Rows Of = "rows" // each one for itself
	// Pair is of embeddings alone: a row's own, and a part of the one before it.
	Pair Of = "pair"
)

// Settings say what is built of what.
type Settings struct {
	Model     *model.Model
	Pool      *pool.Pool
	Recording *recording.Recording
	// Store is what the store is to be like; its shape and model are the recording's.
	Store expertmap.Settings
	// Prefill says which maps a prompt has.
	Prefill Of
	// Embedding says what stands beside a map: the row's own embedding, the prompt's last
	// one, a mean of those up to the row, or a pair.
	Embedding Of
	// Train is the share of each domain's sequences of which the store is built; what is
	// left is measured.
	Train float64
	// Least is the least δ, whatever the scores; the paper's is 0.
	Least float64
	// Online takes in maps of what is measured too, after each step.
	Online bool
	Tenant string
	// Progress hears what is going on.
	Progress func(format string, args ...any)
}

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	r, spec := s.Recording, &s.Model.Spec
	switch {
	case r.Model != s.Model.Hash:
		return fmt.Errorf("the recording is of the model with hash %.12s, not %.12s; record this model", r.Model, s.Model.Hash)
	case r.Hidden == 0:
		return errors.New("the recording has no inputs of gates; record without --no-inputs")
	case r.Hidden != spec.Hidden || r.Experts != spec.Experts || r.TopK != spec.TopK:
		return errors.New("the recording's numbers of inputs and experts are not the model's; record it anew")
	case !(s.Train >= 0 && s.Train <= 1):
		return fmt.Errorf("the store is to be built of %g of the sequences; it must be 0 to 1", s.Train)
	}
	if !(s.Least >= 0 && s.Least <= 1) {
		return fmt.Errorf("the least threshold is %g; it must be 0 to 1", s.Least)
	}
	if known := []Of{Last, Mean, Rows}; !slices.Contains(known, s.Prefill) {
		return fmt.Errorf("maps of a prompt are to be of %q; choose one of %v", s.Prefill, known)
	}
	if known := []Of{Last, Mean, Rows, Pair}; !slices.Contains(known, s.Embedding) {
		return fmt.Errorf("embeddings are to be of %q; choose one of %v", s.Embedding, known)
	}
	_, err := expertmap.New(s.store())
	return err
}

func (s *Settings) store() expertmap.Settings {
	c, r := s.Store, s.Recording
	c.Model = r.Model
	c.Shape = expertmap.Shape{Layers: len(r.Layers), Experts: r.Experts, TopK: r.TopK, Embedding: r.Hidden}
	return c
}

// Run builds a store of the first part of each domain's sequences, and measures it on the
// others.
func Run(ctx context.Context, s Settings) (*expertmap.Store, *Report, error) {
	if err := s.Check(); err != nil {
		return nil, nil, err
	}
	store, err := expertmap.New(s.store())
	if err != nil {
		return nil, nil, err
	}
	b := builder{Settings: s, store: store}
	if b.router, b.embeddings, err = gates(&s); err != nil {
		return nil, nil, err
	}
	train, test := split(s.Recording, s.Train)
	for i, at := range train {
		s.Progress("taking in sequence %d of %d…", i+1, len(train))
		if err := b.each(ctx, at, b.add); err != nil {
			return nil, nil, err
		}
	}
	m := &meter{store: store, least: float32(s.Least), q: map[int]*expertmap.Search{}, row: make([]float32, store.Experts)}
	for i, at := range test {
		s.Progress("foretelling sequence %d of %d…", i+1, len(test))
		if err := b.each(ctx, at, func(st *step) error { return b.measure(m, st) }); err != nil {
			return nil, nil, err
		}
	}
	return store, m.report(len(train), len(test)), nil
}

// gates are the model's, and its embedding layer.
func gates(s *Settings) (*forward.Router, *forward.Embeddings, error) {
	router, err := forward.LoadRouter(s.Model, s.Pool)
	if err != nil {
		return nil, nil, err
	}
	embeddings, err := forward.LoadEmbeddings(s.Model, s.Pool)
	return router, embeddings, err
}

// span are the rows of a sequence.
type span struct{ from, to int }

// split deals out each domain's sequences in the order of the recording, evenly.
func split(r *recording.Recording, share float64) (train, test []span) {
	first, seen := r.Sequences(), make([]float64, len(r.Domains))
	for i, from := range first[:len(first)-1] {
		at, domain := span{from, first[i+1]}, r.Row(from).Domain
		before := int(seen[domain] * share)
		if seen[domain]++; int(seen[domain]*share) > before {
			train = append(train, at)
		} else {
			test = append(test, at)
		}
	}
	return train, test
}

// builder makes steps of a recording.
type builder struct {
	Settings
	store      *expertmap.Store
	router     *forward.Router
	embeddings *forward.Embeddings
}

func (b *builder) add(st *step) error { return b.store.AddBatch(b.Tenant, st.maps) }

// measure searches for a step's rows.
func (b *builder) measure(m *meter, st *step) error {
	m.step(b.Tenant, st)
	if !b.Online {
		return nil
	}
	return b.add(st)
}
