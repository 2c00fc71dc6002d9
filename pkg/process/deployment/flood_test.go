package deployment_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	plans "github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// floods is how many messages a flood has.
const floods = 500

// A producer has the server acknowledge prompts at subjects of buckets, and who has a
// service's credentials writes what he may: neither pushes plans or their settings out
// of their bucket, or makes that store anything else, and no acknowledgement is stored at all.
func TestFlood(t *testing.T) {
	f, srv, m := users(t)
	d := openAs(t, f, srv, m, "expert")
	var wanted []*pb.LayerPlan
	for _, l := range d.MoELayers() {
		wanted = append(wanted, &pb.LayerPlan{Layer: uint32(l), Functions: []*pb.Function{plans.Function(l, experts(m), "host")}, Reason: "test"})
	}
	if _, _, err := d.Plans.Write(t.Context(), nil, wanted, planstore.Writer{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Plans.ChangeSettings(t.Context(), plans.Settings{Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	stored := schemas.BucketStream(d.Streams.Bucket("plans"))
	before := stateOf(t, d, stored)

	producer, expert := login(t, f, srv, rights.Producer), d.Conn.NATS()
	for i := range floods {
		for _, kind := range []string{"plans", "functions"} {
			bucket := d.Streams.Bucket(kind)
			if err := producer.PublishRequest(d.Subjects.Prompt(), bus.KeySubject(bucket, fmt.Sprint("garbage-", i)), []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := expert.Publish(bus.KeySubject(bucket, fmt.Sprint("more-", i)), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, call := range []string{"PURGE.", "DELETE."} {
		if err := producer.PublishRequest(d.Subjects.Prompt(), "$JS.API.STREAM."+call+stored, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := producer.Request(d.Subjects.Prompt(), []byte("last"), time.Minute); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the flood came where keys are not known", func() bool {
		state, err := d.Conn.State(t.Context(), schemas.BucketStream(d.Streams.Bucket("functions")))
		return err == nil && state.Messages >= floods
	})
	if state := stateOf(t, d, schemas.BucketStream(d.Streams.Bucket("functions"))); state.Messages > floods {
		t.Errorf("%d messages of the %d that the expert host sent: acknowledgements are stored", state.Messages, floods)
	}
	if after := stateOf(t, d, stored); after != before {
		t.Errorf("before: %+v\nafter: %+v", before, after)
	}
	if state, err := d.Plans.Read(t.Context()); err != nil || len(state.Layers()) != len(wanted) {
		t.Errorf("plans of %d layers, want %d; %v", len(state.Layers()), len(wanted), err)
	}
	if s, written, err := d.Plans.Settings(t.Context()); err != nil || !written || s.Replicas != 2 {
		t.Errorf("settings %+v, %v, %v", s, written, err)
	}
}

// stateOf is what a stream holds, and how much was ever stored there.
func stateOf(t *testing.T, d *deployment.Deployment, stream string) bus.StreamState {
	t.Helper()
	s, err := d.Conn.State(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	s.Time = time.Time{} // of the look
	return s
}

// users are a server that knows the users of a small model's services.
func users(t *testing.T) (credentials.Folder, *natsserver.Server, *model.Model) {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	s := testusers.Demo()
	s.Scope.Models = []rights.Model{{Name: m.Name}}
	for l, spec := range m.Spec.Layer {
		if spec.MoE {
			s.Scope.Models[0].MoELayers = append(s.Scope.Models[0].MoELayers, l)
		}
	}
	f := testusers.Make(t, s)
	return f, testusers.Serve(t, testusers.Plain(t, f)), m
}

// openAs opens the model's deployment as a service's user.
func openAs(t *testing.T, f credentials.Folder, srv *natsserver.Server, m *model.Model, user string) *deployment.Deployment {
	t.Helper()
	p := pool.New(1)
	t.Cleanup(p.Close)
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	as := func(user string) *bus.Conn {
		conn, err := bus.Connect(t.Context(), bus.Config{Creds: f.Creds(user)}, bus.Settings{InProcess: srv, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	s := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, m.Name), Hops: schemas.HopsUnacked}
	if _, err := as(rights.Setup).Provide(t.Context(), bus.Provision{Replicas: 1}, deployment.Wanted(s, deployment.MoELayers(m))...); err != nil {
		t.Fatal(err)
	}
	conn := as(user)
	d, err := deployment.Open(t.Context(), deployment.Settings{
		Conn: conn, Model: m, Pool: p, Prefix: schemas.DefaultPrefix, Hops: schemas.HopsUnacked, Wire: tensor.BF16, Telemetry: tel, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func login(t *testing.T, f credentials.Folder, srv *natsserver.Server, user string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(srv.URL(), nats.Timeout(testkit.Patience), nats.UserCredentials(f.Creds(user)), nats.CustomInboxPrefix(rights.InboxOf(user)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func experts(m *model.Model) (ids []uint32) {
	for i := range m.Spec.Experts {
		ids = append(ids, uint32(i))
	}
	return ids
}
