package queue

import (
	"context"
	"sync"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// Settings are what one replica takes sequences with.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	Presence   *deployment.Presence
	Log        *tokenlog.Log
	Members    Members
	Pages      Pages
	Keeper     *renewal.Keeper
	Engine     Engine
	// MaxSequences bounds what is handed over at once, and MaxModelLen a sequence, prompt and
	// generated tokens together; 0 is the model's limit.
	MaxSequences, MaxModelLen int
	// Throttles says that the device is slow for now: siblings are to begin what they can.
	Throttles func() bool
	// Before is waited for before a sequence is claimed; nil: nothing is.
	Before func(context.Context, *pb.Sequence)
	// Tasks are what goes on until it is done, or the replica stops.
	Tasks *sync.WaitGroup
}

// Engine is engine.Engine's part that handing sequences over needs.
type Engine interface {
	NewSequence(seq *pb.Sequence, hold *renewal.Hold, release func(ids int)) *engine.Sequence
	// Writing says what follows from what becomes of a sequence's log.
	Writing(s *engine.Sequence) tokenlog.WriterSettings
	Admit(ctx context.Context, s *engine.Sequence) error
	// Owns says whether a request is being worked on here.
	Owns(ctx context.Context, request string) bool
	Line() *engine.Line
}

// Members are those that are seen; a members.View is.
type Members interface {
	Snapshot() []*pb.Member
	OtherKinds() []*pb.Member
	Follow(ctx context.Context, fn func([]*pb.Member))
}

// Pages are those of keys and values; a kvcache.Pool has them.
type Pages interface {
	Need(positions int) int
	Capacity() int
}
