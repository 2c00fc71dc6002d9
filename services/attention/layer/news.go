package layer

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// See takes in which members there are now. What may be with a replica that has just fallen
// silent is hurried.
func (l *Layer) See(all []*pb.Member) {
	l.Peers.update(all)
	before := l.silences
	if l.silences = l.Peers.silences(); l.silences > before {
		l.Exchange.hurryAll()
	}
}

// What a server that is back had in memory is lost, and what was sent while it was away;
// the services behind come back within returnsWithin of each other.
const (
	returnsWithin = 2 * time.Second
	returnsEvery  = 250 * time.Millisecond
)

// FollowServer hurries, until ctx ends, what may have been lost with the server; back is
// closed when it is back.
func (l *Layer) FollowServer(ctx context.Context, back <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-back:
		}
		back = l.d.Conn.Reconnection()
		for range returnsWithin / returnsEvery {
			l.Exchange.hurryAll()
			if pause.For(ctx, returnsEvery) != nil {
				return
			}
		}
	}
}

// FollowFunctions hurries, until ctx ends, what may be with a host whose functions
// the gates have just found elsewhere, and notes which layers' rows wait for a cold
// function.
func (l *Layer) FollowFunctions(ctx context.Context) error {
	rules, newest := l.d.FunctionRules(), newestPlans{}
	stop, err := l.d.Conn.FollowKeys(l.d.Functions.Bucket(), planstore.AnyKey, func(key string, value []byte, deleted bool) {
		l.Exchange.waking.hear(rules, key, value, deleted)
		if gate, err := rules.DecodeGate(key, value); err == nil && !deleted && newest.update(gate.Versions) {
			l.Exchange.hurryAll()
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// newestPlans are the newest of each layer that a gate uses.
type newestPlans map[uint32]uint64

// update says whether a gate has gone over to a newer plan of a layer.
func (n newestPlans) update(versions map[uint32]uint64) (newer bool) {
	for l, v := range versions {
		if v > n[l] {
			n[l], newer = v, true
		}
	}
	return newer
}
