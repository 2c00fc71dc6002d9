package device

import (
	"context"

	"github.com/switchyard/switchyard/pkg/forward"
	"github.com/switchyard/switchyard/pkg/model"
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
	for l := range spec.Layer {
		for e := 0; spec.Layer[l].MoE && e < spec.Experts; e++ {
			tickets = append(tickets, d.Load(ctx, forward.ExpertID{Layer: l, Expert: e}, 0))
		}
	}
	for _, t := range tickets {
		<-t.Done()
		if err := t.Err(); err != nil {
			return err
		}
	}
	return nil
}
