package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/schemas"
)

const (
	permissions = "../../deploy/permissions.conf"
	password    = "s3cret"
	producer    = "producer"
	tenant      = "producer-acme"
	viewer      = "top"
	operator    = "operator"
	maker       = "setup"
	edge        = "tokenizer-edge"
	gateway     = "gateway"
)

// kinds are all services.
var kinds = slices.Concat(fleet.Kinds, fleet.Loop)

// The services work with the rights of deploy/permissions.conf, a producer
// with its rights can do what docs/api.md says, and nothing that it may not do
// itself can it make a service do.
func TestPermissions(t *testing.T) {
	wanted(t)
	g := newGuarded(t)
	t.Run("a producer's rights", g.useRights)
	t.Run("the rights of top", g.look)
	t.Run("the operator's rights", g.keepWeights)
	t.Run("the services' answers", g.abuseServices)
	t.Run("the server's acknowledgements", g.abuseServer)
	t.Run("a producer's bounds", g.exceed)
	t.Run("a producer's headers", g.sendHeaders)
	t.Run("denied", g.denied)
	g.checkLogs()
}

// keepWeights puts the demo model into the object store, serves it from there
// with an expert host's rights, and removes it.
func (g *guarded) keepWeights(t *testing.T) {
	program := filepath.Join(g.programs, "switchyard")
	weights := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(program, append([]string{"weights", "--nats", operator}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	weights("push", "../../models/demo")
	weights("ls")
	for _, kind := range []string{"gate", "expert", "attention"} {
		p := fleet.Launch(t, kind+" without files", program, kind, "--nats", kind, "--model", "nats://demo")
		p.Await(t, "ready")
		if line := p.Find("permissions violation"); line != "" {
			t.Errorf("%s lacks a right: %s", kind, line)
		}
		p.Drain(t)
	}
	weights("rm", "demo")
}

// useRights does all that a producer may do.
func (g *guarded) useRights(t *testing.T) {
	nc := g.producer(producer)
	g.complete(t, nc, "rights-1", 8)
	for _, ask := range []struct{ subject, body string }{
		{"switchyard.ask.demo", texts[1]}, {"switchyard.replay.demo", `{"request_id": "rights-1"}`},
		{"switchyard.ask.demo.default.high", texts[1]},
	} {
		if _, err := nc.Request(ask.subject, []byte(ask.body), patience); err != nil {
			t.Errorf("%s: %v", ask.subject, err)
		}
	}
	if err := errors.Join(nc.Publish("switchyard.cancel.demo.rights-1", nil), nc.Flush(), nc.LastError()); err != nil {
		t.Errorf("a producer lacks a right: %v", err)
	}
	if _, err := g.producer(tenant).Request("switchyard.ask.demo.acme.low", []byte(texts[1]), patience); err != nil {
		t.Errorf("a tenant's producer lacks a right: %v", err)
	}
}

// look wants a snapshot with what the experts have computed for useRights.
func (g *guarded) look(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(g.programs, "switchyard"), "top", "--json", "--nats", viewer).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"layer":`) {
		t.Errorf("top lacks a right: %v\n%s", err, out)
	}
}

// patience is when an answer of a few tokens counts as never coming.
const patience = 2 * time.Minute

// internal are subjects that a producer has no right for, with what belongs to
// a request.
func internal(request string) []string {
	shard := strconv.Itoa(schemas.ShardOf(request))
	return []string{
		"$JS.API.STREAM.DELETE.switchyard_TOKENS_demo", "$JS.API.STREAM.PURGE.switchyard_TOKENS_demo",
		"$JS.API.STREAM.DELETE.KV_switchyard_plans_demo", "$KV.switchyard_plans_demo.settings", "$KV.switchyard_plans_demo.0", "$KV.switchyard_functions_demo.gate.x",
		"$KV.switchyard_leases_demo.planner", "$KV.switchyard_leases_demo.shard-" + shard, "$KV.switchyard_members_demo.nobody",
		"switchyard.token.demo." + shard + "." + request, "switchyard.sequence.demo", "switchyard.stop.demo." + request,
		"switchyard.cancelled.demo." + request, "switchyard.interest.demo.ask." + request, "switchyard.dlq.demo.prompt.crash",
		"switchyard.prompt.demo.globex.low", "$KV.switchyard_trials_demo." + request, "$O.switchyard_weights_demo.M.x",
	}
}

// abuseServices lets the services answer where only they may publish. Who does it
// may publish everything in an account of producers, and in that of the tokenizers' edge: what the
// server would not let a producer send, such as a prompt for a model that nobody serves,
// reaches the services too.
func (g *guarded) abuseServices(t *testing.T) {
	before := g.state(t)
	for _, account := range []string{"producers", "edge"} {
		g.abuse(t, g.user(adminOf(account)))
	}
	g.complete(t, g.producer(producer), "rights-2", 8) // everything before it has been handled by then
	if after := g.state(t); after != before {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
}

func (g *guarded) abuse(t *testing.T, nc *nats.Conn) {
	t.Helper()
	for _, victim := range internal("rights-1") {
		for _, m := range []nats.Msg{
			{Subject: victim, Data: []byte("garbage")},
			{Subject: "switchyard.ask.demo", Data: []byte("Once"), Reply: victim},
			{Subject: "switchyard.ask.demo", Data: []byte("{"), Reply: victim},
			{Subject: "switchyard.ask.nosuch", Data: []byte("Once"), Reply: victim},
			{Subject: "switchyard.prompt.nosuch", Data: []byte("Once"), Reply: victim},
			{Subject: "switchyard.replay.demo", Data: []byte(`{"request_id": "rights-1"}`), Reply: victim},
			{Subject: "switchyard.replay.demo", Data: []byte(`{"request_id": "*"}`), Reply: victim},
			{Subject: "switchyard.cancel.demo.rights-1", Reply: victim},
			{Subject: "$SRV.PING", Reply: victim},
			{Subject: "switchyard.prompt.demo", Data: []byte(`{"text": "Once", "reply_to": "` + victim + `"}`)},
			{Subject: "switchyard.prompt.demo", Data: []byte("garbage"), Header: nats.Header{"Switchyard-Reply-To": {victim}}},
		} {
			if err := nc.PublishMsg(&m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// abuseServer has the server acknowledge prompts where the producer may not publish:
// JetStream sends its acknowledgement to whatever reply subject a publisher names. It
// reaches the producer's own account, where nothing is stored.
func (g *guarded) abuseServer(t *testing.T) {
	nc := g.producer(tenant)
	victims := append(internal("victim"), internal("no-such-request")...)
	var running sync.WaitGroup
	running.Go(func() { g.complete(t, g.producer(producer), "victim", 300) })
	for range 10 {
		for _, victim := range victims {
			for _, m := range []nats.Msg{
				{Subject: "switchyard.prompt.demo.acme.low", Reply: victim, Data: []byte("garbage")},
				{Subject: "switchyard.prompt.demo.acme.low", Data: []byte("garbage"), Header: nats.Header{"Nats-Trace-Dest": {victim}}},
			} {
				if err := nc.PublishMsg(&m); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(20 * time.Millisecond) // through the whole of the answer
	}
	running.Wait()
	g.complete(t, g.producer(producer), "after-it", 8)
	for _, victim := range victims {
		g.wantNoGarbage(t, victim)
	}
}

// wantNoGarbage wants no acknowledgement stored at a subject.
func (g *guarded) wantNoGarbage(t *testing.T, subject string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	name, err := g.js.StreamNameBySubject(ctx, subject)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	stream, err := g.js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	last, err := stream.GetLastMsgForSubject(ctx, subject)
	if err == nil && strings.Contains(string(last.Data), `"stream"`) {
		t.Errorf("%s has %s", subject, last.Data)
	} else if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Fatal(err)
	}
}

// state is what a producer must not change: the streams, the plan, and the log of a request.
func (g *guarded) state(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var names []string
	infos := g.js.ListStreams(ctx)
	for info := range infos.Info() {
		names = append(names, info.Config.Name+" "+info.Created.String())
	}
	slices.Sort(names)
	plans, err := g.js.KeyValue(ctx, "switchyard_plans_demo")
	if err != nil {
		t.Fatal(err)
	}
	layer, err := plans.Get(ctx, "0")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := g.js.Stream(ctx, "switchyard_TOKENS_demo")
	if err != nil {
		t.Fatal(err)
	}
	log, err := tokens.Info(ctx, jetstream.WithSubjectFilter(schemas.NewSubjects("switchyard", "demo").Token("rights-1")))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s; plan %d; log %v", strings.Join(names, ", "), layer.Revision(), log.State.Subjects)
}

// denied publishes as each user what it has no right to.
func (g *guarded) denied(t *testing.T) {
	for _, user := range append(slices.Clone(kinds), producer, tenant, viewer, edge) {
		nc := g.user(user)
		for _, subject := range []string{
			"$O.switchyard_weights_demo.M.x", "$JS.API.STREAM.PURGE.OBJ_switchyard_weights_demo", "$JS.API.STREAM.DELETE.OBJ_switchyard_weights_demo",
			"$JS.API.STREAM.DELETE.switchyard_TOKENS_demo", "$JS.API.STREAM.PURGE.switchyard_TOKENS_demo",
			"$JS.API.STREAM.UPDATE.switchyard_TOKENS_demo", "$JS.API.STREAM.MSG.DELETE.switchyard_TOKENS_demo",
			"$JS.API.STREAM.CREATE.mine", "$SYS.REQ.SERVER.PING", "orders.new",
		} {
			wantDenied(t, nc, user, subject)
		}
	}
	for user, subjects := range map[string][]string{
		producer:     {"switchyard.stop.demo.x", "switchyard.token.demo.0.x", "switchyard.sequence.demo", "switchyard.load.demo.ask", "switchyard.ask.nosuch", "switchyard.prompt.demo.acme.high", "switchyard.cancelled.demo.x", "$SRV.PING", "_INBOX.x", "_INBOX.producer-acme.x"},
		tenant:       {"_INBOX.producer.x", "$JS.API.INFO", "switchyard.prompt.demo", "switchyard.ask.demo", "switchyard.prompt.demo.default.high", "switchyard.ask.demo.globex.low", "switchyard.token.demo.0.x", "_INBOX.x"},
		operator:     {"switchyard.ask.demo", "switchyard.token.demo.0.x", "$KV.switchyard_plans_demo.0", "$O.switchyard_weights_other.M.x", "_INBOX.x"},
		viewer:       {"switchyard.prompt.demo", "switchyard.load.demo", "$KV.switchyard_members_demo.x", "_INBOX.x"},
		edge:         {"switchyard.prompt.demo", "switchyard.sequence.demo", "switchyard.token.demo.0.x", "switchyard.cancelled.demo.x", "switchyard.ask.demo", "$KV.switchyard_plans_demo.0", "$JS.API.STREAM.NAMES"},
		"tokenizer":  {"_INBOX.x", "_INBOX.producer.x", "switchyard.rejected.demo", "switchyard.cancel.demo.x", "switchyard.hidden.demo.0", "switchyard.block.demo.x", "$KV.switchyard_plans_demo.0"},
		"attention":  {"switchyard.prompt.demo", "switchyard.block.demo.x", "$KV.switchyard_leases_demo.planner", "_INBOX.x"},
		"gate":       {"switchyard.token.demo.0.x", "switchyard.step.demo", "switchyard.load.demo", "switchyard.load.demo.ask", "switchyard.partial.demo.x", "$KV.switchyard_plans_demo.0", "_INBOX.x"},
		"expert":     {"switchyard.token.demo.0.x", "switchyard.hidden.demo.0", "$KV.switchyard_leases_demo.shard-0", "_INBOX.x"},
		"predictor":  {"switchyard.token.demo.0.x", "switchyard.hidden.demo.0", "switchyard.expert.demo.0.x", "switchyard.load.demo", "$KV.switchyard_plans_demo.0", "$KV.switchyard_leases_demo.planner", "_INBOX.x"},
		"scaler":     {"switchyard.token.demo.0.x", "switchyard.hidden.demo.0", "switchyard.expert.demo.0.x", "switchyard.load.demo", "$KV.switchyard_leases_demo.shard-0", "_INBOX.x"},
		"aggregator": {"switchyard.token.demo.0.x", "switchyard.partial.demo.x", "$KV.switchyard_plans_demo.0", "_INBOX.x"},
	} {
		nc := g.user(user)
		for _, subject := range subjects {
			wantDenied(t, nc, user, subject)
		}
	}
}

// wantDenied publishes, and wants the server to refuse it.
func wantDenied(t *testing.T, nc *nats.Conn, user, subject string) {
	t.Helper()
	refused := make(chan error, 8)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err })
	if err := errors.Join(nc.Publish(subject, nil), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `"`+subject+`"`) {
			t.Errorf("%s on %s: %v", user, subject, err)
		}
	case <-time.After(patience):
		t.Errorf("%s may publish on %s", user, subject)
	}
}
