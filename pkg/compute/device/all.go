package device

import (
	"context"
	"iter"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// LoadAll makes every routed expert of a model warm and holds it until the
// device is closed. On an error it holds none.
func LoadAll(ctx context.Context, d Device, spec model.Spec) (err error) {
	var tickets []*Ticket
	defer func() {
		for _, t := range tickets {
			if err != nil {
				t.Release()
			}
		}
	}()
	for id := range all(spec) {
		tickets = append(tickets, d.Load(ctx, id, 0))
	}
	for _, t := range tickets {
		<-t.Done()
		if err := t.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Largest returns the bytes of a model's largest routed expert.
func Largest(spec model.Spec, size func(forward.ExpertID) (int64, error)) (most int64, err error) {
	for id := range all(spec) {
		n, err := size(id)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

func all(spec model.Spec) iter.Seq[forward.ExpertID] {
	return func(yield func(forward.ExpertID) bool) {
		for l := range spec.Layer {
			for e := 0; spec.Layer[l].MoE && e < spec.Experts; e++ {
				if !yield(forward.ExpertID{Layer: l, Expert: e}) {
					return
				}
			}
		}
	}
}
