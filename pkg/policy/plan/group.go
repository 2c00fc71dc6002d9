package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Group makes a layer's functions of what is wanted for each expert: one of all
// experts that are wanted alike, or one of each. Each expert's placements are in
// the order of their hosts. The functions are in the order of their experts.
func Group(layer int, by Grouping, wanted [][]*pb.Placement) (fs []*pb.Function) {
	of := map[string]*pb.Function{}
	for e, placements := range wanted {
		key := fmt.Sprint(e)
		if by != ByExpert {
			key = spell(placements)
		}
		f := of[key]
		if f == nil {
			f = &pb.Function{Kind: Routed, Placements: placements}
			of[key] = f
			fs = append(fs, f)
		}
		f.Experts = append(f.Experts, uint32(e))
	}
	for _, f := range fs {
		f.Id = FunctionID(layer, f.Experts, f.Kind)
	}
	slices.SortFunc(fs, func(a, b *pb.Function) int { return cmp.Compare(a.Experts[0], b.Experts[0]) })
	return fs
}

// spell is the same for the same placements.
func spell(placements []*pb.Placement) string {
	var b strings.Builder
	for _, p := range placements {
		fmt.Fprintf(&b, "%q %d ", p.Host, p.Want)
	}
	return b.String()
}
