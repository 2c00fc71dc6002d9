package admission

import (
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Settings are by what one replica admits.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	// Tenants are what tenants may have, by name.
	Tenants map[string]Quota
	// MaxQueued is how many sequences may wait for attention.
	MaxQueued int
	Probe     *probe.Probe
	// Reserved are the bytes that the token log must still take.
	Reserved *Reservations
	// Shards counts the shards of the token log that this replica serves.
	Shards func() int
}

// Members are those that are seen; a members.View is.
type Members interface{ Snapshot() []*pb.Member }

// Request is one that asks to be admitted.
type Request struct {
	ID   string
	Flow schemas.Flow
}
