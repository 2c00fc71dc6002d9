package members

import (
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// MayDegrade says whether a brownout may come: an attention replica can ask for one, or an expert
// host can load united experts.
func MayDegrade(all []*pb.Member) bool {
	return slices.ContainsFunc(OfService(all, "attention"), func(m *pb.Member) bool { return m.Stats[Browns] > 0 }) ||
		slices.ContainsFunc(OfService(all, "expert"), func(m *pb.Member) bool { return len(m.United) > 0 })
}
