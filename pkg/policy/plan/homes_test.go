package plan

import (
	"maps"
	"strings"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Of several hosts of a function one is its home, but for what all of them hold.
func TestHomes(t *testing.T) {
	for _, tc := range []struct {
		name string
		on   []string // of each function of one expert, its warm hosts
		want string   // homes; - is none
	}{
		{"one host each", []string{"a", "b"}, "- -"},
		{"two hosts each", []string{"b a", "b a", "b a"}, "a b a"},
		{"a home that does not serve it", []string{"b c", "c a", "a b"}, "b a a"},
		{"one that is wanted most", []string{"a b c", "a b", "a b"}, "- b a"},
		{"one that is cold", []string{"", "a b"}, "- -"},
	} {
		l, want := &pb.LayerPlan{}, map[string]string{}
		for e, on := range tc.on {
			f := Function(0, []uint32{uint32(e)}, strings.Fields(on)...)
			l.Functions = append(l.Functions, f)
			if home := strings.Fields(tc.want)[e]; home != "-" {
				want[f.Id] = home
			}
		}
		if got := Homes(l); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tc.name, got, want)
		}
	}
	if got := Homes(nil); len(got) > 0 {
		t.Errorf("without a plan: %v", got)
	}
	kept := Function(0, []uint32{0}, "a")
	kept.Placements = append(kept.Placements, &pb.Placement{Host: "b", Want: pb.Want_WANT_KEPT})
	if got := Homes(&pb.LayerPlan{Functions: []*pb.Function{kept, UnitedFunction(0, Bundle{2, 7}, []uint32{0}, "a", "b")}}); len(got) > 0 {
		t.Errorf("a replica that takes no rows and a united expert: %v", got)
	}
}
