package schemas

import (
	"strings"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A record that says nothing of its kind is of a version that did not know of kinds.
func TestUnsaidKind(t *testing.T) {
	if s := KindOf(&pb.LayerPlan{}).String(); !strings.Contains(s, "earlier version") {
		t.Errorf("it is called %q", s)
	}
	unsaid := KindOf(&pb.Member{ModelHash: 7, NumericClass: "fma32", Wire: "bf16"})
	if !unsaid.Made(2, 7) || unsaid.Made(2, 8) || unsaid.Made(1, 7) || unsaid.Made(Version+1, 7) {
		t.Errorf("%v makes other messages", unsaid)
	}
}

func TestJoins(t *testing.T) {
	own := NewKind(7, "fma32", "bf16", HopsUnacked)
	for _, tc := range []struct {
		name   string
		change func(*pb.Member)
		joins  bool
	}{
		{"same", func(*pb.Member) {}, true},
		{"version unsaid", func(m *pb.Member) { m.SchemaVersion = 0 }, true},
		{"hops unsaid", func(m *pb.Member) { m.Hops = "" }, true},
		{"other version", func(m *pb.Member) { m.SchemaVersion++ }, false},
		{"other model", func(m *pb.Member) { m.ModelHash++ }, false},
		{"other kernels", func(m *pb.Member) { m.NumericClass = "x" }, false},
		{"other wire", func(m *pb.Member) { m.Wire = "f32" }, false},
		{"other hops", func(m *pb.Member) { m.Hops = "core" }, false},
		{"other wire, hops unsaid", func(m *pb.Member) { m.Wire, m.Hops = "f32", "" }, false},
	} {
		m := &pb.Member{SchemaVersion: Version, ModelHash: 7, NumericClass: "fma32", Wire: "bf16", Hops: "unacked"}
		tc.change(m)
		there := KindOf(m)
		if own.Joins(there) != tc.joins || there.Joins(own) != tc.joins {
			t.Errorf("%s: \"%v\" joins \"%v\": %v", tc.name, there, own, !tc.joins)
		}
		if strings.Contains(there.String(), "hops "+m.Hops) != (m.Hops != "") {
			t.Errorf("%s: it is called \"%v\"", tc.name, there)
		}
	}
}
