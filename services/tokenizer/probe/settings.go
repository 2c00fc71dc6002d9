package probe

import (
	"time"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Members are those that are seen; a members.View is.
type Members interface {
	Snapshot() []*pb.Member
	Changed() <-chan struct{}
}

// Ledger knows what this replica has seen the token log take since the last look at its stream.
type Ledger interface {
	Written() int64
	// Looked takes out what a look at the stream found there.
	Looked(written int64)
}

// Settings are what a probe looks at, and with what.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	// Model says what a canary may ask for.
	Model *edge.Model
	// CanaryEvery is how long no token may flow before a canary is sent; 0: none is.
	CanaryEvery time.Duration
	Ledger      Ledger
	// Owns says whether this replica serves the shard of a request.
	Owns func(request string) bool
}
