package main

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/drain"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

// process is a service that runs as one of its own would, until it ends.
type process struct {
	says *sharedText
	stop context.CancelFunc
	code chan int
}

func startProcess(t *testing.T, service, url string, more ...string) *process {
	t.Helper()
	p := &process{says: &sharedText{}, code: make(chan int, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	args := append([]string{service, "--nats", url, "--threads", "1"}, more...)
	go func() {
		p.code <- runWaiting(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: p.says}, patient)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-p.code; code != cli.ExitDone {
			t.Errorf("%s exited with %d:\n%s", service, code, p.says)
		}
	})
	return p
}

func (p *process) ended() bool {
	select {
	case code := <-p.code:
		p.code <- code // for who stops it
		return true
	default:
		return false
	}
}

// A process whose only replica drains ends as a signal would have it end; top then says
// what is missing, and so does the log of one replica, once. Nobody drains a replica by
// having the server publish where an operator does.
func TestDrainProcess(t *testing.T) {
	t.Parallel()
	srv := startNATS(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	url := srv.ClientURL()
	all := map[string]*process{}
	for _, service := range cluster.Names {
		all[service] = startProcess(t, service, url)
	}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url}, bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	var s top.Snapshot
	look := func() bool {
		got := invoke("", "top", "--nats", url, "--json")
		s = top.Snapshot{}
		return got.Code == cli.ExitDone && json.Unmarshal([]byte(got.Out), &s) == nil
	}
	testkit.Eventually(t, "it is served", func() bool { return look() && s.Serving })
	gate := s.Members[slices.IndexFunc(s.Members, func(m top.Member) bool { return m.Service == "gate" })].ID
	subjects := schemas.NewSubjects(schemas.DefaultPrefix, "demo")
	came := make(chan *nats.Msg, 1)
	hear := func(m *nats.Msg) {
		select {
		case came <- m:
		default: // one is enough; drain asks until it is answered
		}
	}
	if _, err := conn.Subscribe(subjects.Drain("gate", gate), "", hear); err != nil {
		t.Fatal(err)
	}
	if err := conn.NATS().PublishRequest(subjects.Prompt(), subjects.Drain("gate", gate), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	<-came
	if got := invoke("", "prompt", "--nats", url, "--max-tokens", "2", "Once"); got.Code != cli.ExitDone || all["gate"].ended() {
		t.Fatalf("the server's acknowledgement has drained it: %+v", got)
	}
	if log := all["gate"].says.String(); !strings.Contains(log, "replica "+gate+" starts") || !strings.Contains(log, "replica="+gate) {
		t.Errorf("%q does not name %s", log, gate)
	}
	conns, err := srv.Connz(nil)
	if err != nil || !slices.ContainsFunc(conns.Conns, func(c *server.ConnInfo) bool { return c.Name == "switchyard "+gate }) {
		t.Errorf("no connection is named after %s: %v", gate, err)
	}

	got := invoke("", "drain", "--nats", url, "--json", gate)
	result := drain.Result{}
	if err := json.Unmarshal([]byte(got.Out), &result); err != nil || got.Code != cli.ExitDone || !result.Drained || result.Replica != gate || result.PID == 0 || !strings.Contains(got.Err, "model demo is NOT SERVING now: gate: there is no gate") {
		t.Fatalf("%+v: %v", got, err)
	}
	testkit.Eventually(t, "the process ends", all["gate"].ended)
	testkit.Eventually(t, "top says what is missing", func() bool {
		return look() && !s.Serving && slices.ContainsFunc(s.Missing, func(l members.Lack) bool { return l.Stage == "gate" })
	})
	told := func(what string) (n int) {
		for _, p := range all {
			n += strings.Count(p.says.String(), what)
		}
		return n
	}
	testkit.Eventually(t, "the loss is told", func() bool { return told("stage=gate why=") > 0 })
	another := startProcess(t, "gate", url)
	testkit.Eventually(t, "the return is told", func() bool { return told("stage=gate away=") > 0 })
	t.Logf("the loss was told %d times", told("stage=gate why=")) // on a busy machine, by each for which who tells it seems gone
	if got := invoke("", "drain", "--nats", url, gate[:len(gate)-1]+"!"); got.Code != cli.ExitFailed || !strings.Contains(got.Err, "no replica and no host") || !strings.Contains(got.Err, "nearest: gate-") {
		t.Errorf("%+v", got)
	}
	testkit.Eventually(t, "served again", func() bool { return look() && s.Serving && len(s.Members) == len(all) })
	host, drained := s.Members[0].Host, 0
	testkit.Eventually(t, "a whole host drains", func() bool { // one that is late is not asked at first
		got := invoke("", "drain", "--nats", url, host)
		drained += strings.Count(got.Out, "has drained and is gone")
		return drained == len(all)
	})
	for service, p := range all {
		testkit.Eventually(t, service+" ends", p.ended)
	}
	testkit.Eventually(t, "the other gate ends", another.ended)
}

// gateUser is a member by a gate's rights, as far as drain sees it.
func gateUser(t *testing.T, conn *bus.Conn, listens, answers bool) {
	t.Helper()
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}
	kv, err := conn.EnsureBucket(t.Context(), 1, names.Bucket("members"), 0)
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(&pb.Member{Id: "gate-1", Service: "gate", Ready: true, Pid: 4711, Host: "machine"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = kv.Put(ctx, "gate-1", body) // what is lost fails the test
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	if listens {
		if _, err := conn.Subscribe(names.Subjects.Here("gate-1"), "", func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	if !answers {
		return
	}
	_, err = conn.Hear(names.Subjects.Drain("gate", "gate-1"), "", func(*nats.Msg) {
		stop()
		gone, err := proto.Marshal(&pb.DrainState{Replica: "gate-1", Gone: true})
		if err == nil {
			err = conn.Tell(names.Subjects.Drained("gate", "gate-1"), gone)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A replica that hangs, or is gone, keeps nobody waiting, and it is said how to end it.
func TestDrainInVain(t *testing.T) {
	for name, tt := range map[string]struct {
		listens bool
		want    string
	}{
		"hangs":    {true, "gate-1: it has a connection and has not answered for 4s: it hangs, or its version knows no drain. It is in process 4711 on host machine"},
		"was shot": {false, "gate-1: it went without having drained"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := startNATS(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
			conn, err := bus.Connect(t.Context(), bus.Config{URL: srv.ClientURL()}, bus.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(conn.Close)
			gateUser(t, conn, tt.listens, false)
			testkit.Eventually(t, tt.want, func() bool { // its renewals may be late
				got := invoke("", "drain", "--nats", srv.ClientURL(), "gate-1")
				return got.Code == cli.ExitFailed && strings.Contains(got.Err, tt.want) && strings.Contains(got.Out, "gate-1 has NOT drained")
			})
		})
	}
}

// The operator drains, who only looks on does not, and neither does a producer.
func TestDrainAsUsers(t *testing.T) {
	t.Parallel()
	f := testusers.Make(t, testusers.Demo())
	srv := testusers.Serve(t, testusers.Plain(t, f))
	makePlans(t, srv, f)
	conn, err := bus.Connect(t.Context(), bus.Config{Creds: f.Creds("gate")}, bus.Settings{InProcess: srv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	gateUser(t, conn, true, true)
	as := func(user string) result {
		return invokePatiently(t, "drain", "gate-1", "--nats", srv.URL(), "--creds", f.Creds(user), "--connect-timeout", "2s")
	}
	var refused sync.WaitGroup
	for _, user := range []string{"top", "producer", "expert"} { // each waits for seconds
		refused.Go(func() {
			testkit.Eventually(t, user+" is refused", func() bool { // the gate's renewals may be late
				got := as(user)
				if got.Code != cli.ExitFailed {
					t.Errorf("%s: %+v", user, got)
				}
				return strings.Contains(got.Err, "permissions violation")
			})
		})
	}
	refused.Wait()
	testkit.Eventually(t, "the operator drains it", func() bool {
		got := as("operator")
		return got.Code == cli.ExitDone && got.Out != ""
	})
}
