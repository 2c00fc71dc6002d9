package deployment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/transport/weights"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// MixedClasses is the class of replicas that have agreed to compute together whatever
// their bits: answers are within the kernels' tolerance, and say so.
const MixedClasses = "mixed"

// Mixed reports whether answers may have bits of several classes.
func (d *Deployment) Mixed() bool { return d.class == MixedClasses }

// Kind returns what must be equal of all replicas.
func (d *Deployment) Kind() schemas.Kind {
	return schemas.NewKind(d.Identity.Model, d.class, string(d.Wire), d.Streams.Hops)
}

// ClassError says that a replica would not give the bits of those that are here, or
// not reach them.
type ClassError struct {
	Here, There   schemas.Kind
	Member, Model string
	// Version is of the member's binary; empty: it does not say.
	Version string
}

// Error names both kinds, and what to give all replicas alike.
func (e *ClassError) Error() string {
	by := ""
	if e.Version != "" {
		by = fmt.Sprintf(" by switchyard %.64s", e.Version)
	}
	return fmt.Sprintf("%s serves %s as \"%v\"%s, and this replica would as \"%v\": they differ in %s: %s", e.Member, e.Model, e.There, by, e.Here, e.difference(), e.remedy())
}

// difference names each field that is another one, with both values.
func (e *ClassError) difference() string {
	var all []string
	for _, f := range []struct {
		name        string
		there, here any
	}{
		{"version of messages", e.There.Version, e.Here.Version},
		{"model", fmt.Sprintf("%016x", e.There.ModelHash), fmt.Sprintf("%016x", e.Here.ModelHash)},
		{"class", e.There.NumericClass, e.Here.NumericClass},
		{"--wire", e.There.Wire, e.Here.Wire},
		{"--hops", e.There.Hops, e.Here.Hops},
	} {
		if f.there != f.here {
			all = append(all, fmt.Sprintf("%s (%v, here %v)", f.name, f.there, f.here))
		}
	}
	return strings.Join(all, ", ")
}

func (e *ClassError) remedy() string {
	if e.There.Version != e.Here.Version {
		return "versions do not mix. Stop the replicas of the one before those of the other start, tokenizers first (docs/operations/upgrade.md); requests that were accepted stay"
	}
	there := e.There
	if there.Hops = e.Here.Hops; there == e.Here {
		return "rows would go astray between them. Give all the same --hops, or another --name, or stop the others first"
	}
	return "answers would differ. Give all the same version of switchyard, --model, --wire, --hops, --precision, --kv-cache-dtype, --device and --gpu-kernels, or another --name, or stop the others first; with --mixed-classes for all, answers may differ"
}

// checkPeers refuses to join members of another kind. A plan of another kind makes it
// look who is here; a plan that everybody has left says nothing.
func (d *Deployment) checkPeers(ctx context.Context) error {
	var state planstore.State
	err := d.Conn.Persist(ctx, "looking at the plan", func(ctx context.Context) (err error) {
		state, err = d.Plans.Read(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for kind := range state.Kinds() {
		if !kind.Joins(d.Kind()) {
			return d.lookForOtherKinds(ctx)
		}
	}
	return nil
}

// lookForOtherKinds returns an error that names a live member of another kind.
func (d *Deployment) lookForOtherKinds(ctx context.Context) error {
	present, err := members.List(ctx, d.Members)
	if err != nil {
		return fmt.Errorf("reading the members: %w", err)
	}
	for _, m := range present {
		if !schemas.KindOf(m).Joins(d.Kind()) {
			return d.classError(m)
		}
	}
	return nil
}

func (d *Deployment) classError(m *pb.Member) error {
	return &ClassError{Here: d.Kind(), There: schemas.KindOf(m), Member: m.GetId(), Model: d.Subjects.Model, Version: m.GetVersion()}
}

// strange is told of a replica of another kind. Who came last gives way: checkPeers has
// found nobody, as when there is no plan yet, but this one may be new itself. It does not end, as whoever may
// write among the members may have invented the other one.
func (p *Presence) strange(m *pb.Member) {
	if since := p.since.Load(); since == nil || time.Since(*since) < members.Hearing {
		p.givesWay.Store(true)
	}
	p.d.Logger.Warn("a replica of another kind is here; nothing goes to it, and none that comes is ready", "error", p.d.classError(m))
}

// MayStay says why a replica that came to others of another kind is not ready: until they are gone.
func (p *Presence) MayStay() error {
	v := p.watched.Load()
	if v == nil || !p.givesWay.Load() {
		return nil
	}
	for _, m := range v.OtherKinds() {
		return p.d.classError(m)
	}
	p.givesWay.Store(false) // who comes from now on is the newer one
	return nil
}

// dropped counts a record among the members that does not count as one.
func (p *Presence) dropped(id string, why error, first bool) {
	p.d.Telemetry.Metrics.Refused.Inc()
	if first {
		p.d.Logger.Warn("a replica's record is dropped; nothing goes to it", "member", id, "error", why)
	}
}

// loadRetry is the pause before weights that could not be fetched are fetched again.
const loadRetry = 500 * time.Millisecond

// WeightsError is of weights that cannot be loaded from where they are, and do not mend themselves.
type WeightsError struct {
	Doing string // such as "loading the gates"
	Err   error
}

// Error says both.
func (e *WeightsError) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap is the reason.
func (e *WeightsError) Unwrap() error { return e.Err }

// LoadWeights calls load with the model, and calls it again while the object
// store is why it fails: the store may be slow, or the model pushed anew. The end of ctx ends
// it, and another error does, as a *WeightsError.
func (d *Deployment) LoadWeights(ctx context.Context, what string, load func(*model.Model) error) error {
	var said pause.ErrorLog
	for {
		err := load(d.Model.With(ctx))
		if err == nil {
			return nil
		}
		var object *weights.ObjectError
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, err)
		case !errors.As(err, &object):
			return &WeightsError{what, err}
		}
		said.Error(d.Logger, what+" failed; trying again", err)
		if end := pause.For(ctx, loadRetry); end != nil {
			return fmt.Errorf("%s: %w (%w)", what, end, err)
		}
	}
}
