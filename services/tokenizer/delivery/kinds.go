package delivery

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Kinds tell tokenizers of this version and model from those of another one, which may be
// here as when they were suspended while this one came. Each kind delivers what it has
// accepted: it has leases of the shards and a queue group for replays of its own, and leaves
// what is theirs to the others. Prompts are one queue: one that was theirs before goes back to it.
type Kinds struct {
	own     uint64 // the model
	members *members.View
}

// Here reports whether there may be a live replica of those that accept under an identity.
func (k *Kinds) Here(id *pb.Identity) bool {
	return !k.members.Synced() || slices.ContainsFunc(k.members.OtherKinds(), func(m *pb.Member) bool {
		return schemas.KindOf(m).Made(id.GetVersion(), id.GetModel())
	})
}

// foreigner reports whether a replica cannot read what is accepted here. Such a one hears of
// each replay before it knows whose that is.
func (k *Kinds) foreigner(replica string) bool {
	return slices.ContainsFunc(k.members.OtherKinds(), func(m *pb.Member) bool {
		return m.Id == replica && !schemas.KindOf(m).Made(schemas.Version, k.own)
	})
}

// Group is the queue group in which tokenizers of one kind share replays.
func (k *Kinds) Group() string {
	return fmt.Sprintf("%s-v%d-%016x", EndpointGroup, schemas.Version, k.own)
}

// EndpointGroup is the queue group that micro services share work in.
const EndpointGroup = "q"

// Identity is under what requests are accepted here.
func (k *Kinds) Identity() *pb.Identity { return &pb.Identity{Version: schemas.Version, Model: k.own} }

// shardLease is the key of a shard's lease. Tokenizers of another version or model follow
// the same shards under leases of their own: none can deliver what is of another kind.
func (k *Kinds) shardLease(shard int) string { return leaseOf(shard, k.Identity()) }

// leaseOf is that of the tokenizers that accept under an identity.
func leaseOf(shard int, id *pb.Identity) string {
	return fmt.Sprintf("shard-%d-v%d-%016x", shard, id.GetVersion(), id.GetModel())
}
