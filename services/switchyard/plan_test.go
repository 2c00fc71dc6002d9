package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/plans"
)

// planned is a server with expert hosts.
type planned struct {
	t   *testing.T
	url string
	js  jetstream.JetStream
}

func startPlanned(t *testing.T, hosts int) *planned {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	p := newPlanned(t, srv.URL())
	for range hosts {
		startProbed(t, "expert", p.url)
	}
	return p
}

// newPlanned looks at the plans of a server.
func newPlanned(t *testing.T, url string) *planned {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	return &planned{t, url, js}
}

func (p *planned) plan(args ...string) result {
	return invoke("", append([]string{"--nats", p.url, "plan"}, args...)...)
}

// get is the plan as the command reads it; without layers while there is none.
func (p *planned) get() plans.State {
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}
	kv, err := plans.Open(p.t.Context(), p.js, names)
	if err != nil {
		return plans.State{}
	}
	s, err := plans.ReadAll(p.t.Context(), p.js, kv, names)
	if err != nil {
		return plans.State{}
	}
	return *s
}

// await waits until all functions of all layers are as wanted.
func (p *planned) await(what string, ok func(plans.Function) bool) (s plans.State) {
	p.t.Helper()
	p.until(what, func() bool {
		s = p.get()
		return len(s.Layers) > 0 && !slices.ContainsFunc(s.Layers, func(l plans.Layer) bool {
			return slices.ContainsFunc(l.Functions, func(f plans.Function) bool { return !ok(f) })
		})
	})
	return s
}

const demoLayers = 8

// awaitHosts waits until the plan of all layers has two hosts.
func (p *planned) awaitHosts() (s plans.State) {
	p.t.Helper()
	p.until("two hosts", func() bool {
		s = p.get()
		return len(s.Layers) == demoLayers && len(hosts(s)) == 2
	})
	return s
}

// hosts are those of a state.
func hosts(s plans.State) (all []string) {
	for _, l := range s.Layers {
		for _, f := range l.Functions {
			all = append(all, f.Hosts...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Settings that the command line sets lead to another plan, whichever host plans.
func TestPlanSet(t *testing.T) {
	t.Parallel()
	p := startPlanned(t, 2)
	p.awaitHosts()
	seen := &sharedText{}
	ctx, stop := context.WithCancel(t.Context())
	watching := make(chan int, 1)
	go func() {
		args := []string{"--nats", p.url, "plan", "watch", "--json"}
		watching <- runUntil(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: seen, Err: io.Discard})
	}()
	p.until("the settings are followed", func() bool { // before, a host may be late, or the planner
		got := p.plan("set", "--grouping", "expert", "--replicas", "2")
		return got.Code == cli.ExitDone && got.Out == "policy static, grouping expert, replicas 2\n"
	})
	s := p.await("one function an expert", func(f plans.Function) bool { return len(f.Experts) == 1 && len(f.Hosts) == 2 })
	if s.Settings.Grouping != "expert" || !strings.Contains(s.Layers[0].Reason, "grouping expert, replicas 2") {
		t.Errorf("%+v", s)
	}
	p.until("a change of layer 7", func() bool {
		return strings.Contains(seen.String(), `"layer":7`) && strings.Contains(seen.String(), "grouping expert, replicas 2")
	})
	stop()
	if code := <-watching; code != cli.ExitDone {
		t.Errorf("watching ended with %d:\n%s", code, seen)
	}
	p.until("the plan is told in JSON", func() bool { // a host that is late may be out of it for a while
		var told plans.State
		got := p.plan("get", "--json")
		return json.Unmarshal([]byte(got.Out), &told) == nil && len(told.Layers) == len(s.Layers) && len(hosts(told)) == 2
	})
	if got := p.plan("get"); got.Code != 0 || !strings.Contains(got.Out, "layer 0, version ") || !strings.Contains(got.Out, "  experts 0  on expert-") {
		t.Errorf("%+v", got)
	}
}

// What cannot be had is refused and leaves the settings as they were, with the reason: more
// replicas than hosts, and replicas where a scaler decides by loads. Who looks is told who plans.
func TestPlanSetRefused(t *testing.T) {
	t.Parallel()
	p := startPlanned(t, 2)
	p.awaitHosts()
	refused := func(says string, args ...string) {
		t.Helper()
		p.until("a refusal that says "+says, func() bool { // a host or the scaler may be late to say that it is here
			before, got := p.get().Settings, p.plan(append([]string{"set"}, args...)...)
			is := got.Code == cli.ExitFailed && got.Out == "" && strings.Contains(got.Err, says)
			if now := p.get().Settings; is && now != before {
				t.Errorf("%v: the settings are %+v, and were %+v", args, now, before)
			}
			return is
		})
	}
	refused("--replicas is 5, and model demo has 2 expert hosts", "--replicas", "5")
	p.until("it says who plans", func() bool {
		return strings.Contains(p.plan("get").Out, "one of 2 expert hosts plans, by the settings")
	})
	startProbed(t, "scaler", p.url, "--kafka", "127.0.0.1:1")
	p.until("the scaler plans", func() bool { return p.get().Here.Scaler != nil })
	refused("(--scaling moeless+lean) plans for model demo", "--replicas", "2")
	refused("start it with --scaling static", "--policy", "static", "--grouping", "expert")
	p.until("a grouping is set beside the scaler", func() bool {
		got := p.plan("set", "--grouping", "expert")
		return got.Code == cli.ExitDone && strings.Contains(got.Err, "policy and replicas of the settings are of plans without it")
	})
	seen := &sharedText{}
	ctx, stop := context.WithCancel(t.Context())
	watching := make(chan int, 1)
	go func() {
		watching <- runUntil(ctx, []string{"--nats", p.url, "plan", "watch"}, cli.Stdio{In: strings.NewReader(""), Out: seen, Err: io.Discard})
	}()
	p.until("the watch tells of the scaler", func() bool { return strings.Contains(seen.String(), "(--scaling moeless+lean) plans; ") })
	stop()
	<-watching
}

// Replicas for which there is no memory are told of, though those that fit are made.
func TestPlanSetWithoutRoom(t *testing.T) {
	t.Parallel()
	p := startPlanned(t, 0)
	for range 2 {
		startProbed(t, "expert", p.url, "--expert-memory", "13MiB") // 69 experts of 128
	}
	p.awaitHosts()
	got := result{}
	defer func() { t.Logf("the last answer: %+v", got) }()
	p.until("it says what lacks", func() bool { // before, a host may be late, or the plan not made
		got = p.plan("set", "--replicas", "2")
		return got.Code == cli.ExitFailed && strings.Contains(got.Out, "replicas 2") &&
			strings.Contains(got.Err, "have fewer than 2 replicas, one has 1: the memory of the hosts holds no more")
	})
}

// A watch whose server is gone gives up, for want of a connection.
func TestPlanWatchLost(t *testing.T) {
	t.Parallel()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	p := newPlanned(t, srv.URL())
	host := startProbed(t, "expert", p.url)
	p.await("a plan", func(plans.Function) bool { return true })
	seen := &sharedText{}
	ended := make(chan int, 1)
	go func() {
		args := []string{"--nats", p.url, "plan", "watch", "--connect-timeout", "1s"}
		ended <- runWaiting(t.Context(), args, cli.Stdio{In: strings.NewReader(""), Out: seen, Err: io.Discard}, patient)
	}()
	p.until("the plan", func() bool { return strings.Contains(seen.String(), "layer 7, version ") })
	host.stop()
	srv.Shutdown()
	if code := <-ended; code != cli.ExitNoServer {
		t.Errorf("exited with %d, want %d", code, cli.ExitNoServer)
	}
}

func (p *planned) until(what string, ok func() bool) {
	p.t.Helper()
	testkit.Eventually(p.t, what, ok)
}

// Of the planners of several hosts one plans: the lease is of one of the hosts, and all layers
// are of its epoch, or of an earlier one where a planner was late to renew it.
func TestOnePlans(t *testing.T) {
	t.Parallel()
	p := startPlanned(t, 2)
	s := p.awaitHosts()
	first, last, lease := &pb.LayerPlan{}, &pb.LayerPlan{}, &pb.Lease{}
	if !read(t, p.js, "switchyard_plans_demo", "0", first) || !read(t, p.js, "switchyard_plans_demo", "7", last) {
		t.Fatal("a layer has no plan")
	}
	p.until("a lease", func() bool { return read(t, p.js, "switchyard_leases_demo", "planner", lease) })
	if !slices.Contains(hosts(s), lease.Owner) {
		t.Errorf("%s has the lease; the hosts are %v", lease.Owner, hosts(s))
	}
	for _, l := range []*pb.LayerPlan{first, last} {
		if l.WriterEpoch == 0 || l.WriterEpoch > lease.Epoch {
			t.Errorf("layer %d was written in epoch %d; the lease's is %d", l.Layer, l.WriterEpoch, lease.Epoch)
		}
	}
}

// read reports whether the key has a value: the lease has none between the end of
// one holder's time and the next one's.
func read(t *testing.T, js jetstream.JetStream, bucket, key string, into proto.Message) bool {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(entry.Value(), into); err != nil {
		t.Fatal(err)
	}
	return true
}

// What cannot be set is refused before anything is dialled.
func TestPlanUsage(t *testing.T) {
	t.Parallel()
	for says, args := range testkit.SomeOf(map[string][]string{
		`there is no policy "magic"; there are: static`:                              {"set", "--policy", "magic"},
		`there is no grouping "pair"; there are: planner and expert`:                 {"set", "--grouping", "pair"},
		"--replicas is 0; it must be 1 to 1024":                                      {"set", "--replicas", "0"},
		"replicas is 1025; it must be 1 to 1024":                                     {"set", "--replicas", "1025"},
		"nothing to set; give --policy, --grouping, --replicas, --way or --transfer": {"set"},
		`--transfer is "pigeon"; it must be direct, indirect or pipelined`:           {"set", "--transfer", "pigeon"},
		"--minibatch is of --transfer pipelined alone":                               {"set", "--transfer", "direct", "--minibatch", "7"},
		"--minibatch is 0; it must be 1 to 1048576 rows":                             {"set", "--transfer", "pipelined", "--minibatch", "0"},
		`expected one of "get", "set", "watch"`:                                      {},
		`unexpected argument fly`:                                                    {"fly"},
		`--connect-timeout is 0s`:                                                    {"watch", "--connect-timeout", "0s"},
	}) {
		if got := invoke("", append([]string{"plan"}, args...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, says) {
			t.Errorf("%v: %+v, want %q", args, got, says)
		}
	}
	if got := invoke("", "plan", "get", "--nats", "nats://127.0.0.1:1", "--connect-timeout", "200ms"); got.Code != cli.ExitNoServer {
		t.Errorf("%+v", got)
	}
	f := startFake(t)
	if got := f.invoke("", "plan", "get"); got.Code != cli.ExitFailed || !strings.Contains(got.Err, `no replica has served model "demo"`) {
		t.Errorf("%+v", got)
	}
	for flag, says := range testkit.SomeOf(map[string]string{"--grouping=pair": `no grouping "pair"`, "--replication=-1": "replicas is -1"}) {
		if got := invoke("", "up", flag); got.Code != cli.ExitUsage || !strings.Contains(got.Err, says) {
			t.Errorf("%+v, want %q", got, says)
		}
	}
	if got := invoke("", "up", "--hosts=2", "--replication=2", "--scaling=eplb"); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "with --scaling eplb the scaler decides") {
		t.Errorf("%+v", got)
	}
	for says, flags := range testkit.SomeOf(map[string]string{
		"--horizon is 0s; it must be 1s to":                               "--scaling=eplb --horizon=0s",
		"--keep-alive is 10s and --zero-after 6s, so that":                "--scaling=moeless+lean --keep-alive=10s --zero-after=6s",
		"set --keep-alive to 6s at most, or --zero-after to 10s at least": "--scaling=moeless --keep-alive=10s --zero-after=6s",
		`every is "0s"`:       "--scaling=eplb:every=0s",
		"--zero-after is -1s": "--scaling=moeless --zero-after=-1s",
		"--horizon is 1s, and loading an expert takes":                               "--scaling=moeless --horizon=1s --device=paced --profile=" + slowToLoad(t),
		"--keep-alive is 1m0s and --zero-after 6s, so that an expert's last replica": "--scaling=moeless --zero-after=6s",
	}) {
		if got := invoke("", append([]string{"up"}, strings.Fields(flags)...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, says) {
			t.Errorf("%s: %+v, want %q", flags, got, says)
		}
	}
	if got := invoke("", "expert", "--grouping=expert"); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "unknown flag --grouping") {
		t.Errorf("%+v", got)
	}
}

// slowToLoad is a profile of a device to which an expert takes three seconds.
func slowToLoad(t *testing.T) (file string) {
	t.Helper()
	text, err := os.ReadFile("../../pkg/compute/device/paced/profiles/a6000-mixtral.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(file, bytes.Replace(text, []byte("value: 0.010"), []byte("value: 3"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
