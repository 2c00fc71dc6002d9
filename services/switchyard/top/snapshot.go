// Package top reads from NATS what a model's services do, and shows it.
package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Reader reads what a model's services do: the live replicas from their bucket,
// the queues from the streams, and the experts' loads from what hosts send.
type Reader struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	names schemas.Streams
	loads listener
}

// NewReader reads the state of the model that names are of.
func NewReader(nc *nats.Conn, js jetstream.JetStream, names schemas.Streams) *Reader {
	return &Reader{nc: nc, js: js, names: names}
}

// Close ends the listening to loads.
func (r *Reader) Close() { r.loads.close() }

// Snapshot is one look. Its JSON form is what `top --json` prints.
type Snapshot struct {
	Time    time.Time `json:"time"`
	Model   string    `json:"model"`
	Members []Member  `json:"members"`
	Queues  []Queue   `json:"queues"`
	// Layers are what the experts have computed since their hosts' starts, as far
	// as hosts have told it since the reader's first snapshot, so many Seconds ago;
	// later if no expert host was here then.
	Layers  []Layer `json:"layers"`
	Seconds float64 `json:"seconds"`
	// Replicas are those of each layer that hosts have.
	Replicas []Replicas `json:"replicas"`
	// RefusedSamples are messages about loads that nobody can have meant, or that
	// are more than is kept.
	RefusedSamples uint64 `json:"refused_samples"`
}

// Member is a live replica.
type Member struct {
	ID       string             `json:"id"`
	Service  string             `json:"service"`
	Ready    bool               `json:"ready"`
	Draining bool               `json:"draining"`
	Device   string             `json:"device"`
	Stats    map[string]float64 `json:"stats"`

	model   uint64
	renewed time.Time // the server's
}

// Queue is a stage's stream.
type Queue struct {
	Stage    string `json:"stage"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Layer has the rows that each expert of a layer has computed so far, by expert id.
type Layer struct {
	Layer int      `json:"layer"`
	Rows  []uint64 `json:"rows"`

	heard []uint64 // of them, those that were computed since the reader listens
}

const (
	statRequests = "requests_total"
	statActive   = "requests_active"
	statTokens   = "tokens_total"
	statRows     = "rows_total"

	statFinished     = "requests_finished_total"
	statSeconds      = "request_seconds_total"
	statFirstTokens  = "first_tokens_total"
	statFirstSeconds = "first_token_seconds_total"
	statFailed       = "requests_failed_total" // by attention
	statRefused      = "refused_total"         // by tokenizers
	statPages        = "kv_pages"
	statPagesUsed    = "kv_pages_used"
)

// patience bounds the wait for one snapshot.
const patience = 5 * time.Second

// silentTooLong is when a replica that others outlive counts as gone.
const silentTooLong = 3 * time.Second

// Snapshot looks once.
func (r *Reader) Snapshot(ctx context.Context) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	members, err := r.members(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := r.queues(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.loads.follow(r.nc, r.names.Subjects, members); err != nil {
		return nil, err
	}
	s := &Snapshot{Time: time.Now().UTC(), Model: r.names.Subjects.Model, Members: members, Queues: queues}
	r.loads.fill(s)
	s.Replicas = r.replicas(ctx, members)
	return s, nil
}

// Await returns when every live expert host has told what its experts computed
// before the last snapshot, or after span.
func (r *Reader) Await(ctx context.Context, span time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	for !r.loads.complete() {
		select {
		case <-ctx.Done():
			return
		case <-r.loads.heard:
		}
	}
}

func (r *Reader) members(ctx context.Context) ([]Member, error) {
	bucket, err := r.js.KeyValue(ctx, r.names.Bucket("members"))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("nobody has served model %q here under prefix %q; check --model, or start it with `switchyard up`",
			r.names.Subjects.Model, r.names.Subjects.Prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of live replicas: %w", err)
	}
	keys, err := bucket.Keys(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, fmt.Errorf("listing live replicas: %w", err)
	}
	list := []Member{}
	newest := time.Time{}
	for _, key := range keys {
		m, err := readMember(ctx, bucket, key)
		if err != nil {
			return nil, err
		}
		if m != nil {
			list = append(list, *m)
			if m.renewed.After(newest) {
				newest = m.renewed
			}
		}
	}
	// The killed leave their entries behind for a while. Both times are the server's.
	list = slices.DeleteFunc(list, func(m Member) bool { return newest.Sub(m.renewed) > silentTooLong })
	slices.SortFunc(list, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// readMember returns nil for one that has gone meanwhile.
func readMember(ctx context.Context, bucket jetstream.KeyValue, key string) (*Member, error) {
	entry, err := bucket.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading live replica %s: %w", key, err)
	}
	m := &pb.Member{}
	if err := proto.Unmarshal(entry.Value(), m); err != nil {
		return nil, fmt.Errorf("reading live replica %s: %w", key, err)
	}
	return &Member{
		ID: m.Id, Service: m.Service, Ready: m.Ready, Draining: m.Draining, Device: deviceOf(m.Device), Stats: m.Stats,
		model: m.ModelHash, renewed: entry.Created(),
	}, nil
}

// queues reads the streams of the model's stages, in the order of a token's path.
func (r *Reader) queues(ctx context.Context) ([]Queue, error) {
	list := []Queue{}
	infos := r.js.ListStreams(ctx, jetstream.WithStreamListSubject(r.names.Subjects.Prefix+".>"))
	for info := range infos.Info() {
		if stage, ok := r.stage(info.Config.Name); ok {
			list = append(list, Queue{Stage: stage, Messages: info.State.Msgs, Bytes: info.State.Bytes})
		}
	}
	if err := infos.Err(); err != nil {
		return nil, fmt.Errorf("listing the streams: %w", err)
	}
	slices.SortFunc(list, func(a, b Queue) int { return cmp.Compare(stageRank(a.Stage), stageRank(b.Stage)) })
	return list, nil
}

// stage is the kind of a stream of this model that is a queue.
func (r *Reader) stage(stream string) (string, bool) {
	kind, ok := strings.CutPrefix(stream, r.names.Subjects.Prefix+"_")
	if ok {
		kind, ok = strings.CutSuffix(kind, "_"+r.names.Subjects.Model)
	}
	return kind, ok && stageRank(kind) >= 0
}

var stages = []string{"PROMPTS", "SEQUENCES", "HIDDEN", "EXPERT", "PARTIAL", "BLOCK"}

// maxStreams is more layers than any model has.
const maxStreams = 1 << 16

// stageRank orders stages, and the layers of EXPERT among themselves; -1 for what is none.
func stageRank(kind string) int {
	name, layer, _ := strings.Cut(kind, "-")
	i := slices.Index(stages, name)
	if i < 0 {
		return -1
	}
	n, err := strconv.Atoi(layer)
	if err != nil {
		n = 0 // the only stream of its stage
	}
	return i*maxStreams + n
}
