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
	m := &pb.Member{Id: "gate-1", Service: "gate", ModelHash: k.ModelHash, NumericClass: k.NumericClass, Wire: k.Wire, Hops: string(k.Hops), SchemaVersion: k.Version}
	change(m)
	return m
}

// announce has a member here until the test ends. It says so far more often than others do,
// so that who listens for as long as a renewal takes hears it.
func announce(t *testing.T, d *deployment.Deployment, m *pb.Member) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = members.Announce(ctx, d.Members, func() *pb.Member { return m }, members.Interval/40, nil)
	}()
	t.Cleanup(func() { stop(); <-done })
}

func newer(m *pb.Member)  { m.SchemaVersion = schemas.Version + 1 }
func other(m *pb.Member)  { m.ModelHash = 0xbad }
func older(m *pb.Member)  { m.SchemaVersion, m.Hops = 0, "" }
func nobody(m *pb.Member) { m.Id = "" }
func same(*pb.Member)     {}

// newcomer opens the deployment once more, as another process does.
func newcomer(t *testing.T, d *deployment.Deployment, hops schemas.Hops) error {
	t.Helper()
	_, err := deployment.Open(t.Context(), deployment.Settings{
		Conn: d.Conn, Model: d.Model, Pool: d.Pool, Prefix: d.Subjects.Prefix, Hops: hops, Wire: d.Wire, Telemetry: d.Telemetry, Logger: d.Logger,
	})
	return err
}

// wantRefused wants a newcomer to be refused in such words; without any it is to start.
func wantRefused(t *testing.T, err error, says []string) {
	t.Helper()
	var refused *deployment.ClassError
	if (err != nil) != (says != nil) || err != nil && !errors.As(err, &refused) {
		t.Fatalf("error %v", err)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// A replica does not start beside members of another kind whose plan is there; the
// refusal names both.
func TestPeers(t *testing.T) {
	for _, tc := range []struct {
		name         string
		plan, member func(*pb.Member) // of whose kind they are
		says         []string         // empty: it starts
	}{
		{"alone", nil, nobody, nil},
		{"beside its own kind", same, same, nil},
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
			wantRefused(t, newcomer(t, d, d.Streams.Hops), tc.says)
		})
	}
}

// So it is with members whose tensors travel otherwise; a refused replica leaves no
// streams, which would keep what the members send.
func TestPeersOfOtherHops(t *testing.T) {
	const acked, unacked, core = schemas.HopsAcked, schemas.HopsUnacked, schemas.HopsCore
	remedy := "Give all the same --hops, or another --name, or stop the others first"
	for _, tc := range []struct {
		name         string
		there        schemas.Hops
		plan, member func(*pb.Member) // nil: no plan
		here         schemas.Hops
		says         []string
	}{
		{"same", core, same, same, core, nil},
		{"unacked beside core", core, same, same, unacked, []string{"gate-1 serves tiny", `hops core", and`, `hops unacked": they differ in --hops (core, here unacked): rows would go astray`, remedy}},
		{"core beside unacked", unacked, same, same, core, []string{"gate-1 serves", `hops unacked", and`, `hops core":`, remedy}},
		{"acked beside unacked, without a plan", unacked, nil, same, acked, []string{"gate-1 serves", `hops unacked", and`, `hops acked":`, remedy}},
		{"another model as well", unacked, other, other, core, []string{"model 0000000000000bad", "they differ in model (0000000000000bad, here ", "answers would differ", "--model, --wire, --hops"}},
		{"beside an older replica", unacked, older, older, core, nil},
		{"what others have left", core, same, nobody, unacked, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := testdeployment.Open(t, func(s *deployment.Settings) { s.Hops = tc.there })
			if m := member(d, tc.member); m.Id != "" {
				announce(t, d, m)
			}
			if tc.plan != nil {
				plan(t, d, member(d, tc.plan))
			}
			wantRefused(t, newcomer(t, d, tc.here), tc.says)
			_, err := d.Conn.JetStream().Stream(t.Context(), d.Streams.Hidden().Name)
			if has := err == nil; has != (tc.there != core || tc.here != core && tc.says == nil) {
				t.Errorf("there is a stream for hidden rows: %v", has)
			}
		})
	}
}

// Streams for other hops that everybody has left are not changed, and named.
func TestStreamsOfOtherHops(t *testing.T) {
	t.Parallel()
	d := testdeployment.Open(t)
	var differs *bus.MismatchError
	if err := newcomer(t, d, schemas.HopsAcked); !errors.As(err, &differs) || !strings.Contains(err.Error(), "the streams of acked hops") {
		t.Errorf("error %v", err)
	}
}

// plan leaves a plan of a member's kind.
func plan(t *testing.T, d *deployment.Deployment, of *pb.Member) {
	t.Helper()
	lp := &pb.LayerPlan{Version: 1, ModelHash: of.ModelHash, NumericClass: of.NumericClass, Wire: of.Wire, Hops: of.Hops, SchemaVersion: of.SchemaVersion}
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

// Without a plan nobody is found at the start; then who comes is not ready while those of
// another kind are here, and only then.
func TestNewcomerGivesWay(t *testing.T) {
	for name, change := range map[string]func(*pb.Member){"newer": newer, "hops": func(m *pb.Member) { m.Hops = "core" }} {
		t.Run(name, func(t *testing.T) { giveWay(t, change) })
	}
}

func giveWay(t *testing.T, change func(*pb.Member)) {
	t.Parallel()
	d := testdeployment.Open(t)
	joined := make(chan *deployment.Presence, 1)
	d.Joined = func(p *deployment.Presence) { joined <- p }
	p := d.NewPresence("gate-2", "gate")
	p.SetReady(true)
	v, err := p.Watch(t.Context())
	if err != nil || <-joined != p {
		t.Fatal(err)
	}
	say := func(m *pb.Member) {
		if err := d.Conn.Send(t.Context(), bus.KeySubject(d.Members.Bucket(), m.Id), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	say(member(d, func(m *pb.Member) { m.Id, m.Draining = "gate-0", true; other(m) })) // it goes
	say(member(d, older))
	say(member(d, func(m *pb.Member) { m.Id, m.Version = "gate-3", "v9"; change(m) }))
	testkit.Eventually(t, "it gives way", func() bool { return p.MayStay() != nil })
	if err := p.MayStay(); !strings.Contains(err.Error(), "gate-3 serves") || !strings.Contains(err.Error(), "\" by switchyard v9, and") || p.Ready() {
		t.Errorf("it gives way to %v, ready %v", err, p.Ready())
	}
	testkit.Eventually(t, "it is alone", func() bool { return p.Ready() })
	run(t, p.Announce)
	testkit.Eventually(t, "it is a member", func() bool {
		return slices.ContainsFunc(v.Snapshot(), func(m *pb.Member) bool { return m.Id == "gate-2" })
	})
	since := time.Now()
	testkit.Eventually(t, "it is no newcomer", func() bool { return time.Since(since) > members.Hearing })
	say(member(d, func(m *pb.Member) { m.Id = "gate-4"; change(m) }))
	testkit.Eventually(t, "the other kind", func() bool { return len(v.OtherKinds()) > 0 && v.OtherKinds()[len(v.OtherKinds())-1].Id == "gate-4" })
	if err := p.MayStay(); err != nil || !p.Ready() {
		t.Errorf("one that was here gives way: %v", err)
	}
}

func run(t *testing.T, fn func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = fn(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}
