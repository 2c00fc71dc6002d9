package layer

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever comes as a block: a layer that waits gets rows, is told of a failure, or
// waits on.
func FuzzBlock(f *testing.F) {
	key := &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Epoch: 9, Step: 1, Layer: 3, Rows: 2, Microbatch: 1}
	rows := tensor.Encode(tensor.F32, make([]float32, 2*width), width, nil)
	for _, b := range []*pb.Block{
		{Key: key, Tensor: rows}, {Key: key, Error: &pb.Error{Code: "internal", Message: "x"}}, {Key: key, Error: &pb.Error{Code: wire.Elsewhere}}, {Key: key}, {},
	} {
		body, err := proto.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	var r *Remote
	f.Fuzz(func(t *testing.T, body []byte) {
		b := &pb.Block{}
		if proto.Unmarshal(body, b) != nil {
			return
		}
		if r == nil {
			_, r = newFakeLayer(t, 2)
		}
		r.step = 1
		r.back.begin(1, 2)
		r.prepare(3, make([]float32, 2*width))
		defer r.forget()
		err := r.receive(b)
		var foreign *wire.IdentityError
		if err != nil && !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &foreign) {
			t.Errorf("%v has no class", err)
		}
		if c := r.back; (c.missing == 0) != (len(c.whole) == 1) || c.missing == 0 && c.failure == nil && !c.parts[0].arrived {
			t.Errorf("%d parts are missing, %v", c.missing, c.failure)
		}
	})
}
