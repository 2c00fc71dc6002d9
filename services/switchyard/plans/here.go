package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Here is who there is that plans, and that plans are of.
type Here struct {
	// Scaler plans in the hosts' place; nil: they plan themselves.
	Scaler *Scaler `json:"scaler,omitempty"`
	// Hosts is how many expert hosts may be given functions.
	Hosts int `json:"hosts"`
	// IDs are theirs.
	IDs []string `json:"-"`
	// Ways are those that any of them has united experts of, the least first.
	Ways []int `json:"-"`
}

// Scaler is a scaler that plans.
type Scaler struct {
	ID string `json:"id"`
	// Scaling is its --scaling; empty: it does not say.
	Scaling string `json:"scaling"`
}

// goneAfter is when a replica that others outlive counts as gone: the killed leave
// their entries behind for a while.
const goneAfter = 3 * time.Second

// Look reads who is here; without a bucket of them nobody is.
func Look(ctx context.Context, js jetstream.JetStream, s schemas.Streams) (Here, error) {
	kv, err := js.KeyValue(ctx, s.Bucket("members"))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return Here{}, nil
	}
	if err != nil {
		return Here{}, fmt.Errorf("opening the bucket of live replicas: %w", err)
	}
	entries, err := bus.Entries(ctx, kv)
	if err != nil {
		return Here{}, fmt.Errorf("reading who is here: %w", err)
	}
	return hereOf(live(entries)), nil
}

// ReadAll returns what a model's bucket of plans holds now, and who is here.
func ReadAll(ctx context.Context, js jetstream.JetStream, kv jetstream.KeyValue, names schemas.Streams) (*State, error) {
	s, err := Read(ctx, kv, names.Subjects.Model)
	if err != nil {
		return nil, err
	}
	s.Here, err = Look(ctx, js, names)
	return s, err
}

// live returns the members that have been renewed about as lately as the last of them. All
// times are the server's.
func live(entries map[string]jetstream.KeyValueEntry) (all []*pb.Member) {
	newest := time.Time{}
	for _, e := range entries {
		if e.Created().After(newest) {
			newest = e.Created()
		}
	}
	for _, e := range entries {
		m := &pb.Member{}
		if newest.Sub(e.Created()) <= goneAfter && proto.Unmarshal(e.Value(), m) == nil && !m.Draining {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *pb.Member) int { return strings.Compare(a.Id, b.Id) })
	return all
}

// hereOf returns what members tell; of several scalers the one that has the planner's lease.
func hereOf(all []*pb.Member) (h Here) {
	for _, m := range members.OfService(all, "expert") {
		h.IDs = append(h.IDs, m.Id)
		for _, u := range m.United {
			h.Ways = append(h.Ways, int(u.Way))
		}
	}
	slices.Sort(h.Ways)
	h.Ways = slices.Compact(h.Ways)
	h.Hosts = len(h.IDs)
	for _, m := range members.OfService(all, "scaler") {
		if m.Ready && (h.Scaler == nil || m.Stats[members.Planning] > 0) {
			h.Scaler = &Scaler{ID: m.Id, Scaling: scalingOf(m)}
		}
	}
	return h
}

func scalingOf(m *pb.Member) string {
	for name, v := range m.Stats {
		if mode, ok := strings.CutPrefix(name, members.ScalingBy); ok && v > 0 {
			return mode
		}
	}
	return ""
}

// ByLoad says that a scaler decides how many replicas experts have.
func (h Here) ByLoad() bool { return h.Scaler != nil && h.Scaler.Scaling != plan.Static }

// Refuses says why a change of settings would have no effect; nil: it has.
func (h Here) Refuses(change plan.Settings, model string) error {
	if h.ByLoad() && (change.Policy != "" || change.Replicas != 0) {
		return fmt.Errorf("%s plans for model %s and decides by loads how many replicas experts have; "+
			"--policy and --replicas are of plans without it: stop it, or start it with --scaling static, and set them then (--grouping counts with it, too)",
			h.Scaler, model)
	}
	if h.Hosts > 0 && change.Replicas > h.Hosts { // without any nobody knows how many there will be
		return fmt.Errorf("--replicas is %d, and model %s has %d expert hosts: a function can have one replica on each; start %d more, or set --replicas to %d at most",
			change.Replicas, model, h.Hosts, change.Replicas-h.Hosts, h.Hosts)
	}
	if h.Hosts > 0 && change.Way != 0 && !slices.Contains(h.Ways, change.Way) {
		return fmt.Errorf("--way is %d, and the expert hosts of model %s have united experts of ways %v: start them with --united and a folder that has it (switchyard distill --way %[1]d)",
			change.Way, model, h.Ways)
	}
	return nil
}

// String returns the scaler's id, and what it decides by.
func (s *Scaler) String() string {
	if s.Scaling == "" {
		return s.ID
	}
	return fmt.Sprintf("%s (--scaling %s)", s.ID, s.Scaling)
}

// Text says who plans, on a line.
func (h Here) Text() string {
	switch {
	case h.ByLoad():
		return fmt.Sprintf("%s plans; policy and replicas of the settings are of plans without it", h.Scaler)
	case h.Scaler != nil:
		return fmt.Sprintf("%s plans, by the settings", h.Scaler)
	case h.Hosts > 0:
		return fmt.Sprintf("one of %d expert hosts plans, by the settings", h.Hosts)
	}
	return "no planner runs: no expert host is here"
}

// Short is what a plan has less than its settings want.
type Short struct {
	Functions, Of int // so many functions have fewer hosts
	Fewest        int // one has so many
}

// ShortOf counts the functions that have fewer hosts than settings want.
func (s *State) ShortOf(replicas int) (short Short) {
	short.Fewest = replicas
	for _, l := range s.Layers {
		for _, f := range l.Functions {
			short.Of++
			if len(f.Hosts) < replicas {
				short.Functions++
				short.Fewest = min(short.Fewest, len(f.Hosts))
			}
		}
	}
	return short
}

// grouped says that all functions are of a grouping, as far as can be seen: one expert each,
// or no more of them in a layer than it has hosts.
func (s *State) grouped(by plan.Grouping) bool {
	for _, l := range s.Layers {
		hosts := map[string]bool{}
		for _, f := range l.Functions {
			if f.Way > 0 {
				continue // groupings are of routed experts
			}
			if by == plan.ByExpert && len(f.Experts) != 1 {
				return false
			}
			for _, h := range slices.Concat(f.Hosts, f.Kept, f.Cold) {
				hosts[h] = true
			}
		}
		if by == plan.ByHost && len(l.Functions) > len(hosts) {
			return false
		}
	}
	return true
}

// transferred says that rows of all functions travel as settings say, where they say so.
func (s *State) transferred(want plan.Settings) bool {
	how := plan.TransferName(want.Transfer)
	return how == "" || !slices.ContainsFunc(s.Layers, func(l Layer) bool {
		return slices.ContainsFunc(l.Functions, func(f Function) bool { return f.Transfer != how || int(f.Minibatch) != want.Minibatch })
	})
}

// follows says that all layers are planned by settings.
func (s *State) follows(want plan.Settings) bool {
	if !s.transferred(want) {
		return false
	}
	for _, l := range s.Layers {
		switch {
		case l.under == want:
		case l.under != plan.Settings{}:
			return false
		default: // an older planner does not say
			return s.grouped(want.Grouping) && s.ShortOf(want.Replicas).Functions == 0
		}
	}
	return len(s.Layers) > 0
}

// ErrUnfollowed says that nobody has planned by new settings in time.
var ErrUnfollowed = errors.New("no plan follows these settings yet")

// ErrSuperseded says that somebody has set others since.
var ErrSuperseded = errors.New("others have been set since")

// Await reads the plan until it follows settings of a revision, or of a later one that has the
// same change.
func Await(ctx context.Context, kv jetstream.KeyValue, model string, want, change plan.Settings, revision uint64) (*State, plan.Settings, error) {
	for {
		s, err := Read(ctx, kv, model)
		if err == nil && s.revision > revision {
			if s.settings.With(change) != s.settings {
				return s, want, fmt.Errorf("%w: %s", ErrSuperseded, s.Settings.Text())
			}
			want = s.settings
		}
		switch {
		case err == nil && s.follows(want):
			return s, want, nil
		case ctx.Err() != nil:
			return s, want, ErrUnfollowed
		case err != nil:
			return nil, want, err
		}
		select {
		case <-ctx.Done():
			return s, want, ErrUnfollowed
		case <-time.After(gather):
		}
	}
}
