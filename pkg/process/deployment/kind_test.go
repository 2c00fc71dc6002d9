package deployment_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// member is a gate of the deployment's kind, changed.
func member(d *deployment.Deployment, change func(*pb.Member)) *pb.Member {
	k := d.Kind()
	m := &pb.Member{Id: "gate-1", Service: "gate", ModelHash: k.ModelHash, NumericClass: k.NumericClass, Wire: k.Wire, SchemaVersion: k.Version}
	change(m)
	return m
}

// announce has a member here until the test ends.
func announce(t *testing.T, d *deployment.Deployment, m *pb.Member) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = members.Announce(ctx, d.Members, func() *pb.Member { return m }, members.Interval, nil)
	}()
	t.Cleanup(func() { stop(); <-done })
}

func newer(m *pb.Member)  { m.SchemaVersion = schemas.Version + 1 }
func other(m *pb.Member)  { m.ModelHash = 0xbad }
func older(m *pb.Member)  { m.SchemaVersion = 0 }
func nobody(m *pb.Member) { m.Id = "" }

// A replica does not start beside members of another kind whose plan is there; the
// refusal names both.
func TestCheckPeers(t *testing.T) {
	for _, tc := range []struct {
		name         string
		plan, member func(*pb.Member) // of whose kind they are
		says         []string         // empty: it starts
	}{
		{"alone", nil, nobody, nil},
		{"beside its own kind", func(*pb.Member) {}, func(*pb.Member) {}, nil},
		{"beside an older record", older, older, nil},
		{"what a newer version has left", newer, nobody, nil},
		{"the plan of another model, and peers", other, older, nil},
		{"beside a newer version", newer, newer, []string{"gate-1 serves", "schema version 3", "schema version 2"}},
		{"beside another model", other, other, []string{"gate-1 serves", "model 0000000000000bad", "this replica"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := testdeployment.Open(t)
			if m := member(d, tc.member); m.Id != "" {
				announce(t, d, m)
			}
			if tc.plan != nil {
				plan(t, d, member(d, tc.plan))
			}
			err := d.CheckPeers(t.Context())
			var refused *deployment.ClassError
			if (err != nil) != (tc.says != nil) || err != nil && !errors.As(err, &refused) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
		})
	}
}

// plan leaves a plan of a member's kind.
func plan(t *testing.T, d *deployment.Deployment, of *pb.Member) {
	t.Helper()
	lp := &pb.LayerPlan{Version: 1, ModelHash: of.ModelHash, NumericClass: of.NumericClass, Wire: of.Wire, SchemaVersion: of.SchemaVersion}
	body, err := proto.Marshal(lp)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := d.Conn.EnsureBucket(t.Context(), 1, d.Streams.Bucket("plans"), 0)
	if err == nil {
		_, err = kv.Put(t.Context(), "0", body)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Without a plan nobody is found at the start; then who comes gives way to those of
// another kind that were here, and only then.
func TestNewcomerGivesWay(t *testing.T) {
	t.Parallel()
	d := testdeployment.Open(t)
	refused := make(chan error, 9)
	d.Refuse = func(err error) { refused <- err }
	p := d.NewPresence("gate-2", "gate")
	v, err := p.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say := func(m *pb.Member) {
		if err := d.Conn.Send(t.Context(), bus.KeySubject(d.Members.Bucket(), m.Id), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	say(member(d, func(m *pb.Member) { m.Id, m.Draining = "gate-0", true; other(m) })) // it goes
	say(member(d, older))
	say(member(d, func(m *pb.Member) { m.Id = "gate-3"; newer(m) }))
	if err := <-refused; !strings.Contains(err.Error(), "gate-3 serves") {
		t.Errorf("refused by %v", err)
	}
	run(t, p.Announce)
	testkit.Eventually(t, "it is a member", func() bool {
		return slices.ContainsFunc(v.Snapshot(), func(m *pb.Member) bool { return m.Id == "gate-2" })
	})
	since := time.Now()
	testkit.Eventually(t, "it is no newcomer", func() bool { return time.Since(since) > members.Hearing })
	say(member(d, func(m *pb.Member) { m.Id = "gate-4"; newer(m) }))
	testkit.Eventually(t, "the stranger", func() bool { return len(v.Strangers()) > 0 && v.Strangers()[len(v.Strangers())-1].Id == "gate-4" })
	if len(refused) > 0 {
		t.Errorf("one that was here gives way: %v", <-refused)
	}
}

func run(t *testing.T, fn func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = fn(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}
