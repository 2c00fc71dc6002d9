package intake

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Settings are what one replica takes requests in with.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	Presence   *deployment.Presence
	Tracer     *telemetry.Tracer
	Log        *tokenlog.Log
	// Model says what can be asked of it. It is read when requests come.
	Model *edge.Model
	// Text makes ids of text and text of ids, once the replica is started; nil: the model has
	// no tokenizer.
	Text func() *tokenizer.Tokenizer
	// Version of the build: NATS services say it.
	Version string

	Probe     *probe.Probe
	Admission *admission.Admission
	Delivery  *delivery.Delivery
	// Tasks are what goes on until it is done, or the replica stops.
	Tasks *sync.WaitGroup
	// Keep has a subscription end with the replica.
	Keep func(*nats.Subscription, error) error
}

// Members are those that are seen; a members.View is.
type Members interface{ Snapshot() []*pb.Member }

// common is what the parts of an intake work with.
type common struct {
	d        *deployment.Deployment
	replica  string
	presence *deployment.Presence
	tracer   *telemetry.Tracer
	metrics  *telemetry.Metrics
	log      *tokenlog.Log
	model    *edge.Model
	limits   edge.Limits // of what is read
	decoding decoding
	secret   string // of which gateways make ids of their clients' keys

	probe     *probe.Probe
	admission *admission.Admission
	delivery  *delivery.Delivery

	members Members
	tasks   *sync.WaitGroup
	ctx     context.Context // ends when the replica stops
}

func newCommon(s Settings) *common {
	d := s.Deployment
	return &common{
		d: d, replica: s.Replica, presence: s.Presence, tracer: s.Tracer, metrics: d.Telemetry.Metrics, log: s.Log,
		model: s.Model, limits: edge.Limits{Bytes: d.Streams.PromptBytes, Tokens: d.Model.Spec.LongestRequest()}, decoding: newDecoding(),
		probe: s.Probe, admission: s.Admission, delivery: s.Delivery, tasks: s.Tasks,
	}
}
