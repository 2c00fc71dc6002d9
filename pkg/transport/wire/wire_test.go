package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestIdentity(t *testing.T) {
	id := Identity{Model: 7}
	good := func() *pb.Key { return &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Rows: 1} }
	for _, tc := range []struct {
		name    string
		change  func(*pb.Key) *pb.Key
		problem string // empty: none
	}{
		{"ours", func(k *pb.Key) *pb.Key { return k }, ""},
		{"none", func(*pb.Key) *pb.Key { return nil }, "no key"},
		{"version", func(k *pb.Key) *pb.Key { k.Version++; return k }, "run one version of switchyard everywhere"},
		{"model", func(k *pb.Key) *pb.Key { k.Model++; return k }, "give all services the same --model"},
		{"no owner", func(k *pb.Key) *pb.Key { k.Owner = ""; return k }, "owner"},
		{"owner is two tokens", func(k *pb.Key) *pb.Key { k.Owner = "a.b"; return k }, "owner"},
		{"owner is a wildcard", func(k *pb.Key) *pb.Key { k.Owner = ">"; return k }, "owner"},
		{"aggregator is two tokens", func(k *pb.Key) *pb.Key { k.Aggregator = "a.b"; return k }, "and aggregator"},
		{"no rows", func(k *pb.Key) *pb.Key { k.Rows = 0; return k }, "rows"},
		{"too many rows", func(k *pb.Key) *pb.Key { k.Rows = tensor.MaxRows + 1; return k }, "rows"},
	} {
		err := id.CheckKey(tc.change(good()))
		if tc.problem == "" && err == nil {
			continue
		}
		if tc.problem == "" || err == nil || !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.problem)
			continue
		}
		var mismatch *IdentityError
		if errors.As(err, &mismatch) == errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v is neither or both of IdentityError and malformed", tc.name, err)
		}
	}
}
