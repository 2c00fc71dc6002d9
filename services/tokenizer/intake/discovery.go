package intake

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/schemas"
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
	text      func() *tokenizer.Tokenizer // as of Settings
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
	id := e.id
	id.Metadata = e.metadata()
	info := micro.Info{ServiceIdentity: id, Type: micro.InfoResponseType, Description: e.about}
	for _, p := range e.endpoints {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{Name: p.name, Subject: p.subject, QueueGroup: p.group})
	}
	return info
}

// taskNames are what becomes of a prompt, for outsiders.
var taskNames = map[model.Task]string{model.Continue: "continue", model.Fill: "fill", model.Answer: "answer"}

// metadata is what the model is, as gateways tell it to their clients.
func (e *service) metadata() map[string]string {
	m, spec := e.model, e.d.Model.Spec
	flag := strconv.FormatBool
	running, waiting, used := e.loads()
	var bos, eos string
	if text := e.text(); text != nil {
		bos, eos = text.Ends()
	}
	return map[string]string{
		schemas.AboutRunning: strconv.FormatFloat(running, 'f', 0, 64), schemas.AboutWaiting: strconv.FormatFloat(waiting, 'f', 0, 64), schemas.AboutKVUsed: strconv.FormatFloat(used, 'f', 4, 64),
		schemas.AboutModel: e.d.Subjects.Model, schemas.AboutContext: strconv.Itoa(m.MaxLen), schemas.AboutVocab: strconv.Itoa(m.Vocab),
		schemas.AboutFamily: spec.Family, schemas.AboutHash: e.d.Model.Hash, schemas.AboutClass: e.d.Kind().NumericClass, schemas.AboutWire: e.d.Kind().Wire,
		schemas.AboutText: flag(m.EncodeText != nil), schemas.AboutChat: flag(m.EncodeChat != nil), schemas.AboutBOS: bos, schemas.AboutEOS: eos, schemas.AboutTask: taskNames[m.Task],
		schemas.AboutSecret: e.secret, schemas.AboutReady: flag(e.presence.Ready() && e.probe.Canaries.Ready() == nil && e.notReady() == nil), schemas.AboutCreated: strconv.FormatInt(e.started.Unix(), 10),
	}
}

// loads are the requests under way and waiting, and the share of KV pages that are used, as
// attention replicas say.
func (e *service) loads() (running, waiting, used float64) {
	var pages float64
	for _, m := range members.OfService(e.members.Snapshot(), "attention") {
		running += m.Stats[members.Active] - m.Stats[members.InLine]
		waiting += m.Stats[members.InLine] + m.Stats[members.Waiting]
		used += m.Stats[members.KVPagesUsed]
		pages += m.Stats[members.KVPages]
	}
	return max(0, running), waiting + float64(e.probe.Sequences.Queued()), used / max(1, pages)
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
