package top

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/loads"
)

// limits bound what is remembered of loads: more than any model and deployment
// has. Whoever reads has no model's files.
var limits = loads.Limits{Layers: 1024, Experts: 4096, Hosts: 4096}

// listener adds up the loads of one model's expert hosts.
type listener struct {
	model uint64
	since time.Time
	tally *loads.Tally // nil until an expert host is here
	sub   *nats.Subscription
}

// follow listens to the hosts that are members. Another model under the same
// name begins anew.
func (l *listener) follow(nc *nats.Conn, subject string, members []Member) error {
	i := slices.IndexFunc(members, func(m Member) bool { return m.Service == "expert" })
	if i < 0 || l.tally != nil && members[i].model == l.model {
		return nil
	}
	l.close()
	of := limits
	of.Model = members[i].model
	tally := loads.NewTally(of)
	sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
		_ = tally.Add(m.Data) // counted there
	})
	if err != nil {
		return fmt.Errorf("listening to the experts' loads: %w", err)
	}
	l.model, l.since, l.tally, l.sub = of.Model, time.Now(), tally, sub
	return nil
}

// fill adds to a snapshot what has been heard.
func (l *listener) fill(s *Snapshot) {
	s.Layers = []Layer{}
	if l.tally == nil {
		return
	}
	for _, layer := range l.tally.Layers() {
		s.Layers = append(s.Layers, Layer(layer))
	}
	s.Seconds, s.RefusedSamples = time.Since(l.since).Seconds(), l.tally.Refused()
}

func (l *listener) close() {
	if l.sub != nil {
		_ = l.sub.Unsubscribe() // fails without a connection: then nothing comes either
	}
}
