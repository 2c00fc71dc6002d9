package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Refuse answers rows that nobody here can ever compute, so that their owner need
// not wait for them, and returns the error that takes the message off its queue. What
// is of another version or model is for others: replicas of both may be in a group, and
// those of the owner's kind get the rows then.
func Refuse(ctx context.Context, hop *bus.Hop, names schemas.Subjects, key *pb.Key, cause error) error {
	code, other := "internal", (*IdentityError)(nil)
	if errors.As(cause, &other) {
		code = Elsewhere
	}
	if schemas.IsReplicaID(key.GetOwner()) {
		block := &pb.Block{Key: key, Error: &pb.Error{Code: code, Message: cause.Error()}}
		if err := SendBlock(ctx, hop, names, block); err != nil {
			cause = fmt.Errorf("%w (and telling its owner: %w)", cause, err)
		}
	}
	return bus.Poison(cause)
}

// SendBlock sends a block to the owner that its key names, without what the subject says. The key
// keeps its owner, who may have to be told of something else.
func SendBlock(ctx context.Context, hop *bus.Hop, names schemas.Subjects, b *pb.Block) error {
	owner := b.Key.Owner
	b.Key.Owner, b.Key.Aggregator = "", ""
	err := hop.Send(ctx, names.Block(owner), b)
	b.Key.Owner = owner
	return err
}

// Elsewhere is the code of a block's error by which a host tells that it cannot
// compute rows that others may.
const Elsewhere = "elsewhere"

// Decline tells the owner of rows that somebody else is to compute them.
func Decline(ctx context.Context, hop *bus.Hop, names schemas.Subjects, key *pb.Key, reason error) error {
	return SendBlock(ctx, hop, names, &pb.Block{Key: key, Error: &pb.Error{Code: Elsewhere, Message: reason.Error()}})
}
