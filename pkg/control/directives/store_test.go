package directives_test

import (
	"context"
	"errors"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/control/directives"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// On a server: a directive is written by its key's revision and under an epoch, settings by
// whoever comes first; and replicas hear of both, also in a bucket that was made anew.
func TestStore(t *testing.T) {
	t.Parallel()
	d := testdeployment.Open(t)
	rules := d.DirectiveRules()
	s := directives.New(d.Brownout, rules)
	obeyed := directives.NewObeyed(rules.Illegal)
	obeyed.Renewed()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); obeyed.Follow(ctx, s) }()
	defer func() { cancel(); <-done }()
	sees := func(version uint64) {
		t.Helper()
		testkit.Eventually(t, "the directive is obeyed", func() bool {
			obeyed.Renewed()
			now, _, _ := obeyed.Now()
			return now.GetVersion() == version
		})
	}
	by := directives.Writer{ID: "a", Epoch: 5, Holds: func(context.Context) (bool, error) { return false, nil }}
	want := &pb.Directive{Strategy: pb.Strategy_STRATEGY_FULL, Reason: "because"}
	there, err := s.Write(t.Context(), directives.Written{}, want, by)
	if err != nil {
		t.Fatal(err)
	}
	sees(there.Directive.Version)
	next, err := s.Write(t.Context(), there, want, by)
	if err != nil || next.Directive.Version != there.Directive.Version+1 {
		t.Fatalf("%v, %v", next, err)
	}
	sees(next.Directive.Version)
	if _, err := s.Write(t.Context(), there, want, by); !errors.Is(err, directives.ErrConflict) {
		t.Errorf("over a newer one: %v", err)
	}
	late := by
	late.Epoch = 4
	if _, err := s.Write(t.Context(), next, want, late); !errors.Is(err, directives.ErrFenced) {
		t.Errorf("under an earlier lease: %v", err)
	}
	revision, err := directives.Change(t.Context(), d.Brownout, func(old *pb.BrownoutSettings) *pb.BrownoutSettings {
		return &pb.BrownoutSettings{Mode: pb.BrownoutMode_BROWNOUT_MODE_OFF, Way: old.Way + 2}
	})
	if err != nil {
		t.Fatal(err)
	}
	_, wanted, err := s.Read(t.Context())
	if err != nil || wanted.Revision != revision || wanted.Settings.GetWay() != 2 {
		t.Errorf("%v, %v", wanted, err)
	}
	got, settings, err := directives.Read(t.Context(), d.Brownout)
	if err != nil || got.GetReason() != "because" || settings.GetMode() != pb.BrownoutMode_BROWNOUT_MODE_OFF {
		t.Errorf("%v, %v, %v", got, settings, err)
	}
	if err := d.Conn.JetStream().DeleteKeyValue(t.Context(), d.Brownout.Bucket()); err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureBuckets(t.Context()); err != nil {
		t.Fatal(err)
	}
	there, wanted, err = s.Read(t.Context())
	if err != nil || there.Revision != 0 || wanted.Revision != 0 {
		t.Fatalf("%v, %v, %v", there, wanted, err)
	}
	if there, err = s.Write(t.Context(), there, want, by); err != nil || there.Directive.Version > next.Directive.Version {
		t.Fatalf("%v, %v", there, err)
	}
	sees(there.Directive.Version)
}
