package lease

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever is written in the place of a lease, it is held again, with a larger
// epoch that nobody can forge to be the last (enter checks that it grows).
func TestForgedLease(t *testing.T) {
	forged := func(l *pb.Lease) []byte {
		body, err := proto.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	for _, tc := range []struct {
		name string
		body []byte // nil: deleted
	}{
		{"undecodable", []byte("\xff")},
		{"deleted", nil},
		{"last epoch, free", forged(&pb.Lease{Epoch: math.MaxUint64})},
		{"last epoch, owned", forged(&pb.Lease{Owner: "evil", Epoch: math.MaxUint64})},
		{"first epoch", forged(&pb.Lease{Epoch: 1})},
		{"an epoch that can be", forged(&pb.Lease{Owner: "evil", Epoch: 2})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			kv := r.bucket()
			r.contend("a", kv, nil)
			r.await("a+")
			err := kv.Delete(t.Context(), "duty")
			if tc.body != nil {
				_, err = kv.Put(t.Context(), "duty", tc.body)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.await("a+ a- a+")
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.epoch == 0 || r.epoch > 1000 {
				t.Errorf("epoch %d", r.epoch)
			}
		})
	}
}

// Whatever lies there, a lease that is believed has an epoch that goes on.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x0a\x01a\x10\x05"), uint64(9))
	f.Fuzz(func(t *testing.T, body []byte, revision uint64) {
		if l := decode(body, revision); l == nil || l.Epoch > revision {
			t.Errorf("%v of revision %d", l, revision)
		}
	})
}
