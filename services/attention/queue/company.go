package queue

import (
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// company says with whom a replica shares the stream of sequences.
type company int32

const (
	alone company = iota
	// shared: all siblings take sequences.
	shared
	// awaited: a sibling is here that takes none yet, as when all have started again.
	awaited
)

// companyOf is a replica's among the members.
func companyOf(all []*pb.Member, self string) (c company) {
	for _, m := range members.OfService(all, "attention") {
		switch {
		case m.Id == self || m.Draining:
		case !m.Ready:
			return awaited
		default:
			c = shared
		}
	}
	return c
}

// pullShared is how many sequences are pulled at once while there are siblings: as many
// as are claimed at a time.
const pullShared = kvcache.MaxPassed + 1

// share is how many of so many free places to fill at once. Who comes first would have
// all that waits in the stream, as when all replicas were gone, and compute its prompts
// alone. busy says that the replica's workers have enough to do until its sibling comes.
func (c company) share(free int, busy bool) int {
	switch {
	case c == alone:
		return free
	case c == awaited && busy:
		return 0
	}
	return min(free, pullShared)
}
