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

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/schemas"
)

// Reader reads what a model's services do: the live replicas from their bucket,
// the queues from the streams, and the experts' loads from what hosts send.
type Reader struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	names schemas.Streams
	loads listener

	roster *roster // nil: not yet
	ended  <-chan struct{}
	own    context.Context // of what follows the members
	stop   context.CancelFunc
	apart  bool // the connection was lost at the last look
	blind  bool // this user may not see who takes from the durable queues
}

// NewReader reads the state of the model that names are of.
func NewReader(nc *nats.Conn, js jetstream.JetStream, names schemas.Streams) *Reader {
	r := &Reader{nc: nc, js: js, names: names}
	r.own, r.stop = context.WithCancel(context.Background())
	return r
}

// Close ends the listening to loads and members.
func (r *Reader) Close() {
	r.loads.close()
	r.stop()
	if r.ended != nil {
		<-r.ended
	}
}

// Snapshot is one look. Its JSON form is what `top --json` prints.
type Snapshot struct {
	Time  time.Time `json:"time"`
	Model string    `json:"model"`
	// Serving reports whether a prompt becomes tokens now, as far as the members know;
	// Missing is what is missing, in the order of a token's way, and then which experts.
	Serving bool           `json:"serving"`
	Missing []members.Lack `json:"missing"`
	Summary Summary        `json:"summary"`
	Members []Member       `json:"members"`
	Queues  []Queue        `json:"queues"`
	// Layers are what the experts have computed since their hosts' starts, as far
	// as hosts have told it since the reader's first snapshot, so many Seconds ago;
	// later if no expert host was here then.
	Layers  []Layer `json:"layers"`
	Seconds float64 `json:"seconds"`
	// Replicas are those of each layer that hosts have.
	Replicas []Replicas `json:"replicas"`
	// Plans are those of layers, with what made them so.
	Plans []Planned `json:"plans"`
	// RefusedSamples are messages about loads that nobody can have meant, or that
	// are more than is kept.
	RefusedSamples uint64 `json:"refused_samples"`
	// Others are the models that this server has streams for beside this one.
	Others []string `json:"others"`
}

// Queue is a stage's stream.
type Queue struct {
	Stage string `json:"stage"`
	// Messages are all that the stream holds, Waiting those that nobody has taken yet, and
	// InHand those that somebody has; null where that is not known.
	Messages uint64  `json:"messages"`
	Bytes    uint64  `json:"bytes"`
	Waiting  *uint64 `json:"waiting"`
	InHand   *uint64 `json:"in_hand"`
}

// Layer has the rows that each expert of a layer has computed so far, by expert id.
type Layer struct {
	Layer int      `json:"layer"`
	Rows  []uint64 `json:"rows"`

	heard []uint64 // of them, those that were computed since the reader listens
}

// patience bounds the wait for one snapshot.
const patience = 5 * time.Second

// Snapshot looks once.
func (r *Reader) Snapshot(ctx context.Context) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	members, err := r.members(ctx)
	if err != nil {
		return nil, err
	}
	queues, others, err := r.queues(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.loads.follow(r.nc, r.names.Subjects, members); err != nil {
		return nil, err
	}
	s := &Snapshot{Time: time.Now().UTC(), Model: r.names.Subjects.Model, Members: members, Queues: queues, Others: others}
	r.loads.fill(s)
	s.Replicas, s.Plans = r.replicas(ctx, members)
	s.judge()
	return s, nil
}

// members returns those who live. It follows them from the first look on, and anew when the
// server has ended that.
func (r *Reader) members(ctx context.Context) ([]Member, error) {
	now := time.Now()
	switch {
	case !r.nc.IsConnected():
		r.apart = true
	case r.apart && r.roster != nil:
		r.apart = false
		r.roster.forgive(now)
	}
	if r.roster == nil || isClosed(r.ended) {
		if r.roster == nil {
			r.roster = newRoster(now)
		}
		if err := r.begin(ctx); err != nil {
			return nil, err
		}
	}
	return membersOf(r.roster, now), nil
}

// begin follows the members until the reader is closed; ctx bounds the beginning.
func (r *Reader) begin(ctx context.Context) (err error) {
	starting, stop := context.WithCancel(r.own)
	unless := context.AfterFunc(ctx, stop)
	//nolint:contextcheck,nolintlint // what follows outlives the first look
	if r.ended, err = r.roster.watch(starting, r.js, r.names); err != nil {
		stop()
		r.ended = nil
		r.roster = nil
		if ctx.Err() != nil { // by which starting has ended: nobody has interrupted it
			return fmt.Errorf("opening the bucket of live replicas: %w", context.Cause(ctx))
		}
		return err
	}
	if !unless() { // ctx has ended meanwhile, and what follows with it
		return cause(ctx)
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return c == nil
	}
}

// liveSettle bounds the wait until it is known who lives.
const liveSettle = neverHeard + members.Interval

// Live returns who lives, and what is missing of what they say, without queues and loads. It
// takes as long as it takes to hear everybody.
func (r *Reader) Live(ctx context.Context) (*Snapshot, error) {
	if _, err := r.members(ctx); err != nil {
		return nil, err
	}
	r.settle(ctx, liveSettle, func() bool { return r.roster.settled(time.Now()) })
	list, err := r.members(ctx)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Time: time.Now().UTC(), Model: r.names.Subjects.Model, Members: list}
	s.judge()
	return s, nil
}

// Await returns when it is known of every replica whether it lives, and how much it does
// a second, and every live expert host has told what its experts computed before the last
// snapshot; or after span.
func (r *Reader) Await(ctx context.Context, span time.Duration) {
	r.settle(ctx, span, func() bool { return r.loads.complete() && r.roster.settled(time.Now()) })
}

// settle returns when something is so, or after some time.
func (r *Reader) settle(ctx context.Context, within time.Duration, is func() bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(members.Interval / 8)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return
		case <-r.loads.heard:
		case <-tick.C:
		}
	}
}

// queues reads the streams of the model's stages, in the order of a token's path, and
// which other models there are streams of.
func (r *Reader) queues(ctx context.Context) (list []Queue, others []string, err error) {
	list, others = []Queue{}, []string{}
	infos := r.js.ListStreams(ctx, jetstream.WithStreamListSubject(r.names.Subjects.Prefix+".>"))
	for info := range infos.Info() {
		if stage, ok := r.stage(info.Config.Name); ok {
			list = append(list, r.queue(ctx, stage, info))
		}
		if other, ok := strings.CutPrefix(info.Config.Name, r.names.Subjects.Prefix+"_PROMPTS_"); ok && other != r.names.Subjects.Model && schemas.ModelToken(other) == other {
			others = append(others, other)
		}
	}
	if err := infos.Err(); err != nil {
		return nil, nil, fmt.Errorf("listing the streams: %w", err)
	}
	slices.SortFunc(list, func(a, b Queue) int { return cmp.Compare(stageRank(a.Stage), stageRank(b.Stage)) })
	slices.Sort(others)
	return list, others, nil
}

// groups are the consumers of the durable queues.
var groups = map[string]string{"PROMPTS": "tokenizer", "SEQUENCES": "attention"}

// queue returns one stream. What is in a durable one is in hand, too, until it is finished; what
// is in a stream of tensors waits, unless that acknowledges each.
func (r *Reader) queue(ctx context.Context, stage string, info *jetstream.StreamInfo) Queue {
	q := Queue{Stage: stage, Messages: info.State.Msgs, Bytes: info.State.Bytes}
	group, durable := groups[stage]
	switch {
	case durable:
		q.Waiting, q.InHand = r.taken(ctx, info, group)
	case info.Config.Retention != jetstream.WorkQueuePolicy:
		q.Waiting = &q.Messages
	}
	return q
}

// takenWithin bounds a look at who takes from a queue: a user without the right for it
// hears nothing.
const takenWithin = time.Second

// taken returns how many messages of a durable queue nobody has, and how many somebody has; nil
// where that is not known.
func (r *Reader) taken(ctx context.Context, info *jetstream.StreamInfo, group string) (waiting, inHand *uint64) {
	if r.blind {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	c, err := r.js.Consumer(ctx, info.Config.Name, group)
	switch {
	case err == nil:
		has := c.CachedInfo()
		held := uint64(has.NumAckPending)
		return &has.NumPending, &held
	case errors.Is(err, jetstream.ErrConsumerNotFound): // nobody has ever taken any
		return &info.State.Msgs, new(uint64)
	}
	r.blind = r.nc.IsConnected()
	return nil, nil
}

// stage returns the kind of a stream of this model that is a queue.
func (r *Reader) stage(stream string) (string, bool) {
	kind, ok := strings.CutPrefix(stream, r.names.Subjects.Prefix+"_")
	if ok {
		kind, ok = strings.CutSuffix(kind, "_"+r.names.Subjects.Model)
	}
	return kind, ok && stageRank(kind) >= 0
}

var queueStages = []string{"PROMPTS", "SEQUENCES", "HIDDEN", "EXPERT", "PARTIAL", "BLOCK"}

// maxStreams is more layers than any model has.
const maxStreams = 1 << 16

// stageRank orders stages, and the layers of EXPERT among themselves; -1 for what is none.
func stageRank(kind string) int {
	name, layer, _ := strings.Cut(kind, "-")
	i := slices.Index(queueStages, name)
	if i < 0 {
		return -1
	}
	n, err := strconv.Atoi(layer)
	if err != nil {
		n = 0 // the only stream of its stage
	}
	return i*maxStreams + n
}
