package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// lookout reads from NATS what a model's services do: the live replicas from
// their bucket, the queues from the streams.
type lookout struct {
	js      jetstream.JetStream
	streams schemas.Streams
}

// snapshot is one look. Its JSON form is what `top --json` prints.
type snapshot struct {
	Time    time.Time    `json:"time"`
	Model   string       `json:"model"`
	Members []member     `json:"members"`
	Queues  []queue      `json:"queues"`
	Layers  []layerLoads `json:"layers"`
}

type member struct {
	ID          string             `json:"id"`
	Service     string             `json:"service"`
	Ready       bool               `json:"ready"`
	Draining    bool               `json:"draining"`
	PlanVersion uint64             `json:"plan_version"`
	Stats       map[string]float64 `json:"stats"`

	renewed time.Time // the server's
}

// queue is a stage's stream.
type queue struct {
	Stage    string `json:"stage"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// layerLoads are the rows that each expert of a layer has computed so far, by expert id.
type layerLoads struct {
	Layer int       `json:"layer"`
	Rows  []float64 `json:"rows"`
}

const (
	statRequests = "requests_total"
	statActive   = "requests_active"
	statTokens   = "tokens_total"
	statRows     = "expert_rows."

	statFinished     = "requests_finished_total"
	statSeconds      = "request_seconds_total"
	statFirstTokens  = "first_tokens_total"
	statFirstSeconds = "first_token_seconds_total"
	statFailed       = "requests_failed_total" // by attention
	statRefused      = "refused_total"         // by tokenizers
	statPages        = "kv_pages"
	statPagesUsed    = "kv_pages_used"
)

// silentTooLong is when a replica that others outlive counts as gone.
const silentTooLong = 3 * time.Second

func (l *lookout) snapshot(ctx context.Context) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, topPatience)
	defer cancel()
	members, err := l.members(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := l.queues(ctx)
	if err != nil {
		return nil, err
	}
	return &snapshot{Time: time.Now().UTC(), Model: l.streams.Model, Members: members, Queues: queues, Layers: loads(members)}, nil
}

func (l *lookout) members(ctx context.Context) ([]member, error) {
	bucket, err := l.js.KeyValue(ctx, l.streams.Bucket("members"))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("nobody has served model %q here under prefix %q; check --model, or start it with `switchyard up`",
			l.streams.Model, l.streams.Prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of live replicas: %w", err)
	}
	keys, err := bucket.Keys(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, fmt.Errorf("listing live replicas: %w", err)
	}
	list := []member{}
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
	list = slices.DeleteFunc(list, func(m member) bool { return newest.Sub(m.renewed) > silentTooLong })
	slices.SortFunc(list, func(a, b member) int { return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// readMember returns nil for one that has gone meanwhile.
func readMember(ctx context.Context, bucket jetstream.KeyValue, key string) (*member, error) {
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
	return &member{
		ID: m.Id, Service: m.Service, Ready: m.Ready, Draining: m.Draining, PlanVersion: m.PlanVersion, Stats: m.Stats,
		renewed: entry.Created(),
	}, nil
}

// queues reads the streams of the model's stages, in the order of a token's path.
func (l *lookout) queues(ctx context.Context) ([]queue, error) {
	list := []queue{}
	infos := l.js.ListStreams(ctx, jetstream.WithStreamListSubject(l.streams.Prefix+".>"))
	for info := range infos.Info() {
		if stage, ok := l.stage(info.Config.Name); ok {
			list = append(list, queue{Stage: stage, Messages: info.State.Msgs, Bytes: info.State.Bytes})
		}
	}
	if err := infos.Err(); err != nil {
		return nil, fmt.Errorf("listing the streams: %w", err)
	}
	slices.SortFunc(list, func(a, b queue) int { return cmp.Compare(stageRank(a.Stage), stageRank(b.Stage)) })
	return list, nil
}

// stage is the kind of a stream of this model that is a queue.
func (l *lookout) stage(stream string) (string, bool) {
	kind, ok := strings.CutPrefix(stream, l.streams.Prefix+"_")
	if ok {
		kind, ok = strings.CutSuffix(kind, "_"+l.streams.Model)
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

// Bounds of expert_rows.<layer>.<expert>: a member's word is not trusted with our memory.
const (
	maxLayers  = 1024
	maxExperts = 4096
)

// loads adds up the rows that members say they have computed.
func loads(members []member) []layerLoads {
	byLayer := map[int][]float64{}
	for _, m := range members {
		for name, rows := range m.Stats {
			if layer, expert, ok := parseRows(name); ok {
				all := byLayer[layer]
				for len(all) <= expert {
					all = append(all, 0)
				}
				all[expert] += rows
				byLayer[layer] = all
			}
		}
	}
	list := make([]layerLoads, 0, len(byLayer))
	for layer, rows := range byLayer {
		list = append(list, layerLoads{layer, rows})
	}
	slices.SortFunc(list, func(a, b layerLoads) int { return cmp.Compare(a.Layer, b.Layer) })
	return list
}

// parseRows reads the name of a counter of routed rows.
func parseRows(name string) (layer, expert int, ok bool) {
	rest, ok := strings.CutPrefix(name, statRows)
	if !ok {
		return 0, 0, false
	}
	l, x, ok := strings.Cut(rest, ".")
	layer, err1 := strconv.Atoi(l)
	expert, err2 := strconv.Atoi(x)
	ok = ok && err1 == nil && err2 == nil && layer >= 0 && layer < maxLayers && expert >= 0 && expert < maxExperts
	return layer, expert, ok
}
