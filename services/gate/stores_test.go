package gate

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rows of functions that a plan wants so go into objects, in minibatches, and where there is no store
// in the message.
func TestStores(t *testing.T) {
	for name, stored := range map[string]bool{"a store": true, "no store": false} {
		t.Run(name, func(t *testing.T) {
			k := newTrack(t)
			if stored {
				if err := k.d.EnsureObjects(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			k.planned(func(f *pb.Function) { f.Transfer, f.Minibatch = plan.Pipelined, 2 })
			if err := k.handle(k.rows(1, 5)); err != nil {
				t.Fatal(err)
			}
			got := k.dispatches.Take(t, 1)[0]
			if len(got.Expert) != 5*k.d.Model.Spec.TopK || (len(got.Tensor.Data) == 0) != stored || (got.Parcel != nil) != stored {
				t.Fatalf("%v", got)
			}
			if !stored {
				return
			}
			k.stores.end()
			state, err := k.d.Conn.State(t.Context(), k.d.Streams.Objects().Name)
			if err != nil || state.Messages != 3 || len(got.Parcel.Pieces) != 3 || got.Parcel.Minibatch != 2 {
				t.Errorf("%d objects, %v; %v", state.Messages, err, got.Parcel)
			}
			if err := k.Service.rows.Forget(t.Context(), transfer.Group(got.Key)); err != nil {
				t.Error(err)
			}
		})
	}
}
