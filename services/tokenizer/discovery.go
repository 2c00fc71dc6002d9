package tokenizer

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"
)

// endpoint is a NATS micro service with one subject. The client library's own
// answers PING, INFO and STATS to whatever reply subject it is given; here
// these answers pass the same check as all others.
type endpoint struct {
	s       *Service
	id      micro.ServiceIdentity
	about   string
	subject string
	handle  nats.MsgHandler

	started  time.Time
	requests atomic.Int64
	busy     atomic.Int64 // nanoseconds in the handler
}

// endpointGroup is the queue group that micro services share work in.
const endpointGroup = "q"

// offer opens a service subject and its discovery.
func (s *Service) offer(name, subject, about string, handle nats.MsgHandler) error {
	e := &endpoint{
		s: s, about: "model " + s.d.Subjects.Model + ": " + about, subject: subject, handle: handle, started: time.Now().UTC(),
		id: micro.ServiceIdentity{Name: s.d.Subjects.Prefix + "-" + name, ID: nuid.Next(), Version: s.config.Version, Metadata: map[string]string{}},
	}
	if err := s.subscribe(subject, endpointGroup, e.onRequest); err != nil {
		return err
	}
	for verb, answer := range map[micro.Verb]func() any{micro.PingVerb: e.ping, micro.InfoVerb: e.info, micro.StatsVerb: e.stats} {
		for _, scope := range [][2]string{{"", ""}, {e.id.Name, ""}, {e.id.Name, e.id.ID}} {
			control, err := micro.ControlSubject(verb, scope[0], scope[1])
			if err != nil {
				return fmt.Errorf("offering %s: %w", subject, err)
			}
			if err := s.subscribe(control, "", func(m *nats.Msg) { e.describe(m, answer()) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *endpoint) onRequest(m *nats.Msg) {
	begun := time.Now()
	e.handle(m)
	e.requests.Add(1)
	e.busy.Add(time.Since(begun).Nanoseconds())
}

func (e *endpoint) describe(m *nats.Msg, what any) {
	to := destination{subject: m.Reply, origin: inbox}
	if !e.s.answerable(to) {
		return
	}
	body, err := json.Marshal(what)
	if err == nil {
		err = e.s.publish(to, &nats.Msg{Data: body})
	}
	if err != nil {
		e.s.d.Logger.Debug("describing a service", "subject", e.subject, "error", err)
	}
}

func (e *endpoint) ping() any { return micro.Ping{ServiceIdentity: e.id, Type: micro.PingResponseType} }

func (e *endpoint) info() any {
	return micro.Info{ServiceIdentity: e.id, Type: micro.InfoResponseType, Description: e.about, Endpoints: []micro.EndpointInfo{
		{Name: "default", Subject: e.subject, QueueGroup: endpointGroup},
	}}
}

func (e *endpoint) stats() any {
	requests, busy := e.requests.Load(), time.Duration(e.busy.Load())
	return micro.Stats{ServiceIdentity: e.id, Type: micro.StatsResponseType, Started: e.started, Endpoints: []*micro.EndpointStats{{
		Name: "default", Subject: e.subject, QueueGroup: endpointGroup,
		NumRequests: int(requests), ProcessingTime: busy, AverageProcessingTime: busy / time.Duration(max(requests, 1)),
	}}}
}
