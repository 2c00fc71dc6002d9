package planstore

import (
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever lies at a layer's key is a legal plan of that layer, of no later version
// than its revision, or an error that says so.
func FuzzValue(f *testing.F) {
	s := New(nil, Settings{Rules: plan.Rules{Kind: kind, MoELayers: []int{1, 3}, Experts: 1}})
	good := layers("a")[1]
	good.Version, good.ModelHash, good.NumericClass, good.Wire = 2, kind.ModelHash, kind.NumericClass, kind.Wire
	body, err := proto.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	if v := s.value(3, body, 2); v.Err != nil {
		f.Fatal(v.Err)
	}
	f.Add(body, uint64(2))
	f.Add(body, uint64(1))
	f.Add([]byte("\xff"), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, body []byte, revision uint64) {
		v := s.value(3, body, revision)
		switch {
		case (v.Plan == nil) != errors.Is(v.Err, ErrIllegal):
			t.Errorf("plan %v, error %v", v.Plan, v.Err)
		case v.Plan != nil && (v.Plan.Version == 0 || v.Plan.Version > revision || v.Raw.Layer != 3):
			t.Errorf("version %d of layer %d at revision %d", v.Plan.Version, v.Raw.Layer, revision)
		}
	})
}

// Settings from outside are legal, and what is written of them is read again.
func FuzzDecodeSettings(f *testing.F) {
	for _, p := range []*pb.PlanSettings{plan.DefaultSettings().Proto(), {Policy: "magic"}, {Replicas: math.MaxUint32}} {
		body, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := DecodeSettings(body)
		if err != nil {
			if !errors.Is(err, ErrIllegalSettings) {
				t.Errorf("%v has no class", err)
			}
			return
		}
		again, err := proto.Marshal(s.Proto())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeSettings(again); err != nil || got != s {
			t.Errorf("%+v came back as %+v: %v", s, got, err)
		}
	})
}
