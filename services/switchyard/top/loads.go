package top

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/schemas"
)

// limits bound what is remembered of loads: more than any model and deployment
// has. Whoever reads has no model's files.
var limits = claims.Limits{Layers: 1024, Experts: 4096, Hosts: 4096, Entries: 1 << 22}

// maxAsks is how often a host is asked that does not tell as many rows as its
// entry among the members has: that may be a lie.
const maxAsks = 5

// listener adds up the loads of one model's expert hosts.
type listener struct {
	model   uint64
	since   time.Time
	tally   *loads.Tally // nil until an expert host is here
	sub     *nats.Subscription
	awaited map[string]awaited // by host, of those that are members
	heard   chan struct{}      // has a value after a sample
}

// awaited is what a host is expected to tell.
type awaited struct {
	rows float64 // that it had computed when it was first seen
	asks int
}

// follow listens to the hosts that are members, and asks for their totals.
// Another model under the same name begins anew.
func (l *listener) follow(nc *nats.Conn, names schemas.Subjects, members []Member) error {
	hosts := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Service != "expert" })
	if len(hosts) == 0 {
		l.awaited = nil
		return nil
	}
	if l.tally == nil || hosts[0].model != l.model {
		if err := l.listen(nc, names.Load(), hosts[0].model); err != nil {
			return err
		}
	}
	if !l.expect(hosts) {
		return nil
	}
	if err := nc.Publish(names.LoadAsk(), nil); err != nil {
		return fmt.Errorf("asking for the experts' loads: %w", err)
	}
	return nil
}

// listen begins anew with a model.
func (l *listener) listen(nc *nats.Conn, subject string, model uint64) error {
	l.close()
	of := limits
	of.Model = model
	tally, heard := loads.NewTally(of), make(chan struct{}, 1)
	sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
		_ = tally.Add(m.Data) // counted there
		select {
		case heard <- struct{}{}:
		default: // it has one
		}
	})
	if err != nil {
		return fmt.Errorf("listening to the experts' loads: %w", err)
	}
	*l = listener{model: model, since: time.Now(), tally: tally, sub: sub, heard: heard}
	return nil
}

// expect notes which hosts have something to tell, and reports whether any that has
// not told it must be asked.
func (l *listener) expect(hosts []Member) (ask bool) {
	before := l.awaited
	l.awaited = make(map[string]awaited, len(hosts))
	for _, m := range hosts {
		a, known := before[m.ID]
		if !known {
			a.rows = m.Stats[members.HostRows]
		}
		if a.asks < maxAsks && !l.told(m.ID, a) {
			a.asks++
			ask = true
		}
		l.awaited[m.ID] = a
	}
	return ask
}

// told reports whether all is known that a host had computed when it was first seen.
func (l *listener) told(host string, a awaited) bool {
	return float64(l.tally.Rows(host)) >= a.rows
}

// complete reports whether every live host has told its totals. One that seems to
// have computed nothing may have since it was last heard: it has its time.
func (l *listener) complete() bool {
	for host, a := range l.awaited {
		if !l.told(host, a) || l.tally.Rows(host) == 0 {
			return false
		}
	}
	return true
}

// fill adds to a snapshot what has been heard.
func (l *listener) fill(s *Snapshot) {
	s.Layers = []Layer{}
	if l.tally == nil {
		return
	}
	for _, layer := range l.tally.Layers() {
		s.Layers = append(s.Layers, Layer{layer.Layer, layer.Rows, layer.Heard})
	}
	s.Seconds, s.RefusedSamples = time.Since(l.since).Seconds(), l.tally.Refused()
}

func (l *listener) close() {
	if l.sub != nil {
		_ = l.sub.Unsubscribe() // fails without a connection: then nothing comes either
	}
}
