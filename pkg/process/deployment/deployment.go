// Package deployment is what all services of one model share: the connection,
// the names, the model, and what tells them from others.
package deployment

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/directives"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Batches chooses of what is ready what steps next, and after what time it is to be asked
// again at the latest; 0: when something has changed. It returns at once.
type Batches func(ready []batching.Item, out []batching.Take) (takes []batching.Take, again time.Duration)

// Settings are what code sets.
type Settings struct {
	Conn   *bus.Conn
	Model  *model.Model
	Pool   *pool.Pool
	Prefix string
	// Name of the model in subjects; the model's own if empty.
	Name string
	// Replica is the id of the one replica that has this deployment; empty: each makes
	// one of its own.
	Replica string
	// Version is of the binary.
	Version string
	// TellStages has replicas log when a service that tokens pass goes missing, or is back.
	TellStages bool
	Hops       schemas.Hops
	Wire       tensor.Wire
	// Class is the numeric class of the process; the CPU's if empty, and MixedClasses
	// where replicas of others may join.
	Class string
	// LogAge is how long token logs are kept; 0 is the default.
	LogAge time.Duration
	// LogBytes bounds them; 0 is the default.
	LogBytes int64
	// AllRows keeps copies of all rows for predictors.
	AllRows bool
	// Replicas of the streams; 0 is one on one server, three on a cluster.
	Replicas  int
	Telemetry *telemetry.Telemetry
	// Traffic is Conn's observer; nil counts nothing.
	Traffic *Traffic
	// Loads is where samples of experts' loads go; nil: nobody wants them.
	Loads LoadSink
	// Steps hears of each step of an attention replica of this process when it has
	// ended, in whose time: it returns at once, and keeps nothing. nil: nobody listens.
	Steps func(*ledger.Step)
	// Batches chooses what steps next, in the place of an attention replica's policy; nil: the
	// policy does. Measurements alone set it.
	Batches Batches
	Logger  *slog.Logger
	// LogStore makes what keeps the token logs that are written and read by a
	// connection; nil: their stream. Measurements alone set it.
	LogStore func(*bus.Conn) bus.LogStore
}

// LoadSink takes samples of experts' loads to whoever decides by them. Send returns
// at once, may drop, and owns the sample from then on.
type LoadSink interface {
	Send(s *pb.LoadSample)
}

// Deployment is one model's place on one NATS system.
type Deployment struct {
	Conn *bus.Conn
	// Edge is where a tokenizer hears and answers producers; other services have none.
	Edge *bus.Conn
	// Guard is where it hears of requests for models that nobody serves. All prompts come
	// there, of this model, too, so that it may fall behind and be cut off, which must not
	// end asks. nil: the same as Edge.
	Guard    *bus.Conn
	Hop      *bus.Hop
	Logs     bus.LogStore // of tokens
	Subjects schemas.Subjects
	Streams  schemas.Streams

	Model *model.Model
	Pool  *pool.Pool
	Wire  tensor.Wire
	// Identity and Shape are what messages carry, and what they may claim.
	Identity wire.Identity
	Shape    *wire.Shape

	Members jetstream.KeyValue
	// Liveness looks for other replicas.
	Liveness *members.LivenessWatcher
	Plans    *planstore.Store
	Leases   jetstream.KeyValue
	// Functions has what hosts and gates say of functions; see FunctionRules.
	Functions jetstream.KeyValue
	// Brownout has directives and what an operator wants of them; see DirectiveRules.
	Brownout jetstream.KeyValue
	// Trials says who tries what may take a replica down.
	Trials jetstream.KeyValue
	noise  noise

	Telemetry *telemetry.Telemetry
	// Loads is nil when nobody wants samples of loads.
	Loads LoadSink
	// Steps hears of steps; nil: nobody listens.
	Steps func(*ledger.Step)
	// Batches is nil where attention's policy chooses what steps next.
	Batches Batches
	Logger  *slog.Logger
	// Joined is told of a replica that watches the members, and returns at once; nil: nobody is.
	Joined func(*Presence)
	// Ending says that this process stops its replicas one by one; nil: it does not.
	Ending func() bool

	replica    string
	process    process
	tellStages bool

	traffic  *Traffic
	class    string
	replicas int // of the streams
}

// Open creates what is missing of streams and buckets. It waits until the
// server has JetStream ready or ctx ends, and fails with *ClassError where members of
// another kind are here.
func Open(ctx context.Context, s Settings) (*Deployment, error) {
	if s.Name == "" {
		s.Name = s.Model.Name
	}
	id, err := ModelIdentity(s.Model)
	if err != nil {
		return nil, err
	}
	names := schemas.NewSubjects(s.Prefix, s.Name)
	d := &Deployment{
		Conn: s.Conn, Hop: bus.NewHop(s.Conn, s.Hops), Logs: s.Conn, Subjects: names,
		Streams: schemas.Streams{Subjects: names, Hops: s.Hops, LogAge: s.LogAge, LogBytes: s.LogBytes, PromptBytes: schemas.MaxPrompt(s.Model.Spec.LongestRequest()), AllRows: s.AllRows},
		Model:   s.Model, Pool: s.Pool, Wire: s.Wire, Identity: id,
		Telemetry: s.Telemetry, Loads: s.Loads, Steps: s.Steps, Batches: s.Batches, Logger: s.Logger, traffic: s.Traffic, replica: s.Replica, process: thisProcess(s.Version), tellStages: s.TellStages, class: cmp.Or(s.Class, cpu.Class()), replicas: s.Replicas,
	}
	d.Liveness = members.NewLivenessWatcher(s.Conn, names.Here)
	if s.LogStore != nil {
		d.Logs = s.LogStore(s.Conn)
	}
	d.Shape = d.shape()
	if err := d.create(ctx); err != nil {
		return nil, d.Conn.NoRoom(ctx, err, bus.Model{Streams: d.Streams, MoELayers: d.MoELayers()})
	}
	return d, nil
}

func (d *Deployment) shape() *wire.Shape {
	spec := d.Model.Spec
	s := &wire.Shape{Identity: d.Identity, Hidden: spec.Hidden, Experts: spec.Experts, TopK: spec.TopK, MoE: make([]bool, len(spec.Layer))}
	for _, l := range d.MoELayers() {
		s.MoE[l] = true
	}
	row := spec.Hidden * d.Wire.ElementBytes()
	s.MaxRows = func() int { return int(d.Conn.MaxPayload()) / row }
	return s
}

// ModelIdentity returns what messages of a model say of it.
func ModelIdentity(m *model.Model) (wire.Identity, error) {
	id, ok := identityOf(m.Hash)
	if !ok {
		return wire.Identity{}, fmt.Errorf("model %s has no usable hash %q", m.Name, m.Hash)
	}
	return wire.Identity{Model: id}, nil
}

// identityOf returns what of a model's hash is in messages.
func identityOf(hash string) (id uint64, ok bool) {
	sum, err := hex.DecodeString(hash)
	if err != nil || len(sum) < 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(sum), true
}

// create makes what is missing. Members of another kind are looked for before any stream
// is changed: an earlier version would not start again on one that it does not know.
func (d *Deployment) create(ctx context.Context) (err error) {
	if d.Members, err = d.bucket(ctx, "members"); err != nil {
		return err
	}
	plans, err := d.bucket(ctx, "plans")
	if err != nil {
		return err
	}
	d.Plans = planstore.New(plans, planstore.Settings{
		Rules:   plan.Rules{Kind: d.Kind(), MoELayers: d.MoELayers(), Experts: d.Model.Spec.Experts},
		Illegal: d.disbelieve,
	})
	if err := d.checkPeers(ctx); err != nil {
		return err
	}
	if err := d.EnsureStreams(ctx, d.Streams.Durable()...); err != nil {
		return fmt.Errorf("creating streams: %w", err)
	}
	if d.Functions, err = d.bucket(ctx, "functions"); err != nil {
		return err
	}
	if d.Leases, err = d.bucket(ctx, "leases"); err != nil {
		return err
	}
	if d.Brownout, err = d.bucket(ctx, "brownout"); err != nil {
		return err
	}
	if d.Trials, err = d.bucket(ctx, "trials"); err != nil {
		return err
	}
	return d.createTensors(ctx)
}

// createTensors makes what tensors travel through, when no members of another kind are
// here: theirs may travel otherwise, and streams of ours would keep what they send.
func (d *Deployment) createTensors(ctx context.Context) error {
	err := d.EnsureStreams(ctx, d.Streams.Tensors(d.MoELayers())...)
	var theirs *bus.MismatchError
	if errors.As(err, &theirs) { // of members without a plan, or of nobody any more
		if other := d.lookForOtherKinds(ctx); other != nil {
			return other
		}
	}
	if err != nil {
		return fmt.Errorf("creating the streams of %s hops: %w", d.Streams.Hops, err)
	}
	return nil
}

// FunctionRules says what a legal record in Functions is.
func (d *Deployment) FunctionRules() planstore.FunctionSettings {
	return planstore.FunctionSettings{MoELayers: d.MoELayers(), Experts: d.Model.Spec.Experts, Illegal: d.disbelieve}
}

// DirectiveRules says what a legal record in Brownout is.
func (d *Deployment) DirectiveRules() directives.Rules {
	return directives.Rules{Model: d.Identity.Model, MoELayers: d.MoELayers(), Experts: d.Model.Spec.Experts, Illegal: d.disbelieve}
}

// disbelieve counts a record that is none, and tells of it once.
func (d *Deployment) disbelieve(err error) {
	if errors.Is(err, plan.ErrKind) {
		d.noise.mu.Lock()
		defer d.noise.mu.Unlock()
		if !d.noise.plans {
			d.noise.plans = true
			d.Logger.Info("the plan is of another version or model; the planner replaces it", "error", err)
		}
		return
	}
	d.Telemetry.Metrics.IllegalRecords.Inc()
	d.noise.mu.Lock()
	defer d.noise.mu.Unlock()
	d.noise.said.Error(d.Logger, "a record in a bucket was not believed; what was there before stays in use", err)
}

// noise is what was logged of records that are none.
type noise struct {
	mu   sync.Mutex
	said pause.ErrorLog
	// plans says that another kind's were told of.
	plans bool
}

// trialsTTL is longer than a supervisor waits before it starts a process again that
// keeps failing.
const trialsTTL = time.Hour

// bucketTTL are the buckets, with how long a key stays that is not renewed; 0
// is for ever.
var bucketTTL = map[string]time.Duration{"members": members.BucketTTL, "plans": 0, "functions": 0, "leases": 0, "brownout": 0, "trials": trialsTTL}

// bucket opens a bucket, and creates it if it does not exist.
func (d *Deployment) bucket(ctx context.Context, kind string) (jetstream.KeyValue, error) {
	kv, err := d.Conn.EnsureBucket(ctx, d.replicas, d.Streams.Bucket(kind), bucketTTL[kind], bucketKeys(kind, d.MoELayers())...)
	if err != nil {
		return nil, fmt.Errorf("creating the bucket of %s: %w", kind, err)
	}
	return kv, nil
}

// bucketKeys returns the keys that a bucket has, where they are known before: what nobody
// renews is not to be pushed out by keys of others.
func bucketKeys(kind string, moeLayers []int) []string {
	switch kind {
	case "plans":
		return planstore.Keys(moeLayers)
	case "brownout":
		return directives.Keys()
	}
	return nil
}

// EnsureStreams creates the streams that are missing.
func (d *Deployment) EnsureStreams(ctx context.Context, specs ...schemas.StreamSpec) error {
	return d.Conn.Ensure(ctx, d.replicas, specs...)
}

// BucketKinds lists the buckets.
func BucketKinds() []string { return schemas.BucketKinds() }

// Wanted returns all streams of a model with these MoE layers: those of its services and
// buckets, and the object store for its weights.
func Wanted(s schemas.Streams, moeLayers []int) (want []jetstream.StreamConfig) {
	for _, spec := range slices.Concat(s.Durable(), s.Tensors(moeLayers)) {
		want = append(want, bus.WantStream(spec))
	}
	for _, kind := range BucketKinds() {
		want = append(want, bus.WantBucket(s.Bucket(kind), bucketTTL[kind], bucketKeys(kind, moeLayers)...))
	}
	return append(want, bus.WantObjects(s.Bucket("weights")))
}

// EnsureBuckets creates the buckets that somebody has deleted. What lies in them
// is written again by its owners.
func (d *Deployment) EnsureBuckets(ctx context.Context) error {
	for kind := range bucketTTL {
		if _, err := d.bucket(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

// MoELayers lists the layers that have experts.
func (d *Deployment) MoELayers() []int { return MoELayers(d.Model) }

// MoELayers lists a model's layers that have experts.
func MoELayers(m *model.Model) (layers []int) {
	for l, spec := range m.Spec.Layer {
		if spec.MoE {
			layers = append(layers, l)
		}
	}
	return layers
}

// NewID makes a replica's id, which is fit for subjects.
func NewID(service string) string {
	id := nuid.Next()
	return service + "-" + id[len(id)-8:]
}

// EnsureGroup makes a function's consumer group, which nobody need be in: it keeps
// what comes for the function. One that is not kept goes when nobody uses it. Core
// hops have no such group: there, rows for a function without a host are lost, and
// their owner issues them again.
func (d *Deployment) EnsureGroup(ctx context.Context, layer int, function string, kept bool) error {
	r := d.FunctionGroup(layer, function)
	r.Private = !kept
	return d.Hop.Ensure(ctx, r)
}

// EnsureObjects makes the store of rows on their way, where it is missing.
func (d *Deployment) EnsureObjects(ctx context.Context) error {
	return d.EnsureStreams(ctx, d.Streams.Objects())
}

// FunctionGroup returns how a host receives a function's rows. The group of hosts that
// were killed goes by itself.
func (d *Deployment) FunctionGroup(layer int, function string) bus.Receiver {
	return bus.Receiver{Stream: d.Streams.Expert(layer), Name: function, Subject: d.Subjects.Expert(layer, function), Private: true}
}
