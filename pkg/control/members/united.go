package members

import (
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// HaveUnited says whether any expert host can load united experts.
func HaveUnited(all []*pb.Member) bool {
	return slices.ContainsFunc(OfService(all, "expert"), func(m *pb.Member) bool { return len(m.United) > 0 })
}
