package layer

import (
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Order is what gates obey in a step.
type Order struct {
	// Stamp is set on the rows of each layer but those that are exempt, whose rows all have their
	// own experts.
	Stamp  *pb.Stamp
	Exempt []uint32
}

// stamp is that of a layer's rows, in so many messages; nil: none. Where one gate sees all of
// them, it makes one decision; else each message is decided alone.
func (o *Order) stamp(layer, messages int) *pb.Stamp {
	if o == nil || slices.Contains(o.Exempt, uint32(layer)) {
		return nil
	}
	if whole := messages == 1; o.Stamp.Whole != whole {
		s := proto.CloneOf(o.Stamp)
		s.Whole = whole
		return s
	}
	return o.Stamp
}
