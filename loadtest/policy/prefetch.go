package policy

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// PrefetchName is the one policy of prefetching.
const PrefetchName = "fmoe"

// Prefetched is what is printed of a selection.
type Prefetched struct {
	Experts []int `json:"experts"` // in the order in which they are fetched
}

// Prefetch decides which experts of a layer are fetched by a map of such a score.
func Prefetch(name string, in io.Reader) (*Prefetched, error) {
	if name != PrefetchName {
		return nil, fmt.Errorf("--name: %w: %q prefetches nothing; there is %s", registry.ErrUnknown, name, PrefetchName)
	}
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	r.object(v, "probabilities", "score", "top_k")
	row, score, k := r.numbers(v, "probabilities"), r.signed(v, "score"), r.count(v, "top_k", true)
	switch {
	case len(row) == 0:
		r.fail("probabilities", "is empty; it must have the probability of each expert")
	case score < -1 || score > 1:
		r.fail("score", "is %v; it must be -1 to 1", score)
	case k > len(row):
		r.fail("top_k", "is %d; there are %d experts", k, len(row))
	}
	if r.err != nil {
		return nil, r.err
	}
	p := &Prefetched{Experts: []int{}}
	for _, h := range expertmap.Select(row, score, k, nil) {
		p.Experts = append(p.Experts, h.Expert)
	}
	return p, nil
}

// numbers is a list of numbers from 0 to 1.
func (r *reader) numbers(v value, name string) (list []float64) {
	for _, one := range r.list(v, name, true) {
		text, ok := one.token.(json.Number)
		n, err := text.Float64()
		if !ok || err != nil || !(n >= 0 && n <= 1) {
			r.fail(one.path, "must be a number from 0 to 1")
		}
		list = append(list, n)
	}
	return list
}

// signed is a number of any sign.
func (r *reader) signed(v value, name string) float64 {
	f, ok := r.find(v, name, true)
	if !ok {
		return 0
	}
	text, ok := f.token.(json.Number)
	n, err := text.Float64()
	if !ok || err != nil {
		r.fail(f.path, "must be a number")
		return 0
	}
	return n
}
