package deployment

import (
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
)

// listen hears the replica's own announcements come back: that they do is the
// proof that the server takes and hands on messages.
func (p *Presence) listen() (stop func(), err error) {
	return p.d.Conn.FollowKeys(p.d.Members.Bucket(), p.id, func(string, []byte, bool) {
		now := time.Now()
		p.heard.Store(&now)
	})
}

// Reachable returns nil, or why the replica can get no work: there is no
// connection, the server does not answer, or the replica is leaving.
func (p *Presence) Reachable() error {
	if err := p.d.Conn.Ready(); err != nil {
		return err
	}
	if p.draining.Load() {
		return errors.New("draining")
	}
	heard := p.heard.Load()
	if heard == nil {
		return errors.New("not among the members yet")
	}
	if silent := time.Since(*heard); silent > members.TTL {
		return fmt.Errorf("NATS has been silent for %v", silent.Round(100*time.Millisecond))
	}
	return nil
}
