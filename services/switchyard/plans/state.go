// Package plans shows the settings of a model's plans and the plan itself as
// they lie in their bucket, and changes the settings. It knows no model, so
// what it shows is what is written, legal for the model or not.
package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// State is what the bucket holds. Its JSON form is what `plan get --json` prints.
type State struct {
	Model    string   `json:"model"`
	Settings Settings `json:"settings"`
	Here     Here     `json:"here"`
	Layers   []Layer  `json:"layers"`

	settings plan.Settings // as planners read them; zero: they are refused
	revision uint64        // of the settings; 0: nobody has set any
}

// Settings are what plans are to be like.
type Settings struct {
	Policy   string        `json:"policy"`
	Grouping plan.Grouping `json:"grouping"`
	Replicas int           `json:"replicas"`
	// Way is how many experts united experts of plans stand in for; 0: as many as those of the largest way.
	Way int `json:"way,omitempty"`
	// Transfer is how rows reach functions; empty: as the policy says. Minibatch are the rows of each
	// part, if they are pipelined.
	Transfer  string `json:"transfer,omitempty"`
	Minibatch int    `json:"minibatch,omitempty"`
	// Default says that nobody has set any.
	Default bool `json:"default,omitempty"`
	// Error says why those in the bucket are refused; the others are 0 then.
	Error string `json:"error,omitempty"`
}

// Layer is the plan of one layer.
type Layer struct {
	Layer     int        `json:"layer"`
	Version   uint64     `json:"version"`
	Reason    string     `json:"reason"`
	Functions []Function `json:"functions"`
	Error     string     `json:"error,omitempty"`

	under plan.Settings // that it was written under; zero: it does not say
}

// Function is a set of experts and the hosts that are to run it.
type Function struct {
	ID      string   `json:"id"`
	Experts []uint32 `json:"experts"`
	Hosts   []string `json:"hosts"` // that are to have it warm
	// Kept have it loaded and take no rows; Cold load it when rows come.
	Kept []string `json:"kept,omitempty"`
	Cold []string `json:"cold,omitempty"`
	// Way of united experts: how many each stands in for. Experts are their groups then.
	Way uint32 `json:"way,omitempty"`
	// Transfer is how rows reach it, where the plan says so; Minibatch are the rows of
	// each part, if it is pipelined.
	Transfer  string `json:"transfer,omitempty"`
	Minibatch uint32 `json:"minibatch,omitempty"`
	// Memory are the bytes that each replica is rented with, and Beside says that it stands beside
	// attention (policy remoe).
	Memory uint64 `json:"memory_bytes,omitempty"`
	Beside bool   `json:"beside,omitempty"`
}

// Open returns a model's bucket of plans.
func Open(ctx context.Context, js jetstream.JetStream, s schemas.Streams) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, s.Bucket("plans"))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("no replica has served model %q here under prefix %q; check --model, or start it with `switchyard up`", s.Subjects.Model, s.Subjects.Prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of plans: %w", err)
	}
	return kv, nil
}

// Read returns what a model's bucket holds now.
func Read(ctx context.Context, kv jetstream.KeyValue, model string) (*State, error) {
	values, err := bus.Entries(ctx, kv)
	if err != nil {
		return nil, fmt.Errorf("reading the plans of model %s: %w", model, err)
	}
	s := &State{Model: model}
	if settings := values[planstore.SettingsKey]; settings != nil {
		s.Settings = decodeSettings(settings.Value())
		s.settings, _ = planstore.DecodeSettings(settings.Value()) // Settings has the error
		s.revision = settings.Revision()
	} else {
		s.Settings = decodeSettings(nil)
	}
	for key, entry := range values {
		if number, err := strconv.ParseUint(key, 10, 16); err == nil {
			s.Layers = append(s.Layers, decodeLayer(int(number), entry.Value()))
		}
	}
	slices.SortFunc(s.Layers, func(a, b Layer) int { return cmp.Compare(a.Layer, b.Layer) })
	return s, nil
}

func decodeSettings(body []byte) Settings {
	if body == nil {
		s := FromPlan(plan.DefaultSettings())
		s.Default = true
		return s
	}
	s, err := planstore.DecodeSettings(body)
	if err != nil {
		return Settings{Error: err.Error()}
	}
	return FromPlan(s)
}

// FromPlan is legal settings' form here.
func FromPlan(s plan.Settings) Settings {
	return Settings{Policy: s.Policy, Grouping: s.Grouping, Replicas: s.Replicas, Way: s.Way, Transfer: plan.TransferName(s.Transfer), Minibatch: s.Minibatch}
}

func decodeLayer(number int, body []byte) Layer {
	lp := &pb.LayerPlan{}
	if err := proto.Unmarshal(body, lp); err != nil {
		return Layer{Layer: number, Error: fmt.Sprintf("what is written there is no plan: %v", err)}
	}
	l := Layer{Layer: number, Version: lp.Version, Reason: lp.Reason, Functions: []Function{}}
	if lp.Settings != nil {
		l.under = plan.SettingsOf(lp.Settings)
	}
	for _, f := range lp.Functions {
		l.Functions = append(l.Functions, functionOf(f))
	}
	return l
}

func functionOf(f *pb.Function) Function {
	out := Function{
		ID: f.Id, Experts: f.Experts, Hosts: []string{}, Way: f.Way, Transfer: plan.TransferName(f.Transfer), Minibatch: f.Minibatch,
		Memory: f.MemoryBytes, Beside: f.Beside,
	}
	for _, p := range f.Placements {
		switch p.Want {
		case pb.Want_WANT_KEPT:
			out.Kept = append(out.Kept, p.Host)
		case pb.Want_WANT_COLD:
			out.Cold = append(out.Cold, p.Host)
		default:
			out.Hosts = append(out.Hosts, p.Host)
		}
	}
	return out
}
