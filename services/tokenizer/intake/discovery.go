package intake

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/switchyard/switchyard/services/tokenizer/delivery"
)

// service is a NATS micro service. The client library's own answers PING, INFO
// and STATS to whatever reply subject it is given; here these answers pass the
// same check as all others.
type service struct {
	*common
	id        micro.ServiceIdentity
	about     string
	started   time.Time
	endpoints []*endpoint
}

// endpoint is one subject of a service.
type endpoint struct {
	name, subject, group string
	handle               nats.MsgHandler
	requests             atomic.Int64
	busy                 atomic.Int64 // nanoseconds in the handler
}

// endpointNames are those of a service's subjects: the plain one, and the one
// with tenant and class.
var endpointNames = [...]string{"default", "tenants"}

// discover listens for what is asked about the service.
func (e *service) discover(subscribe func(subject, group string, handle nats.MsgHandler) error) error {
	for verb, answer := range map[micro.Verb]func() any{micro.PingVerb: e.ping, micro.InfoVerb: e.info, micro.StatsVerb: e.stats} {
		for _, scope := range [][2]string{{"", ""}, {e.id.Name, ""}, {e.id.Name, e.id.ID}} {
			control, err := micro.ControlSubject(verb, scope[0], scope[1])
			if err != nil {
				return fmt.Errorf("offering %s: %w", e.id.Name, err)
			}
			if err := subscribe(control, "", func(m *nats.Msg) { e.describe(m, answer()) }); err != nil {
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

func (e *service) describe(m *nats.Msg, what any) {
	to := delivery.Destination{Subject: m.Reply, Origin: delivery.Inbox}
	if !e.delivery.Sender.Answerable(to) {
		return
	}
	body, err := json.Marshal(what)
	if err == nil {
		err = e.delivery.Sender.Publish(to, &nats.Msg{Data: body})
	}
	if err != nil {
		e.d.Logger.Debug("describing a service", "service", e.id.Name, "error", err)
	}
}

func (e *service) ping() any { return micro.Ping{ServiceIdentity: e.id, Type: micro.PingResponseType} }

func (e *service) info() any {
	info := micro.Info{ServiceIdentity: e.id, Type: micro.InfoResponseType, Description: e.about}
	for _, p := range e.endpoints {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{Name: p.name, Subject: p.subject, QueueGroup: p.group})
	}
	return info
}

func (e *service) stats() any {
	stats := micro.Stats{ServiceIdentity: e.id, Type: micro.StatsResponseType, Started: e.started}
	for _, p := range e.endpoints {
		requests, busy := p.requests.Load(), time.Duration(p.busy.Load())
		stats.Endpoints = append(stats.Endpoints, &micro.EndpointStats{
			Name: p.name, Subject: p.subject, QueueGroup: p.group,
			NumRequests: int(requests), ProcessingTime: busy, AverageProcessingTime: busy / time.Duration(max(requests, 1)),
		})
	}
	return stats
}
