package arena

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Fit fits routing to a recording; it gives the number of its domains too.
func Fit(path string) (f routing.Fit, domains int, err error) {
	r, err := recording.Open(path)
	if err != nil {
		return f, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s := routing.Shape{Layers: len(r.Layers), Experts: r.Experts, TopK: r.TopK}
	if err := s.Check(); err != nil {
		return f, 0, fmt.Errorf("recording %s: %w", path, err)
	}
	f, err = routing.NewFit(s, samples(r))
	if err != nil {
		return f, 0, fmt.Errorf("recording %s: %w", path, err)
	}
	return f, len(r.Domains), nil
}

// samples are the texts of a recording; a shape that Check accepts has experts of
// two bytes.
func samples(r *recording.Recording) (all []routing.Sample) {
	first, ids := r.Sequences(), make([]int, r.TopK)
	for i := range len(first) - 1 {
		t := routing.Sample{Domain: r.Row(first[i]).Domain}
		for row := first[i]; row < first[i+1]; row++ {
			for l := range r.Layers {
				r.Chosen(l, row, ids)
				for _, e := range ids {
					t.Choices = append(t.Choices, uint16(e))
				}
			}
		}
		all = append(all, t)
	}
	return all
}
