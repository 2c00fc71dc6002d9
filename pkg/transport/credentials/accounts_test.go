package credentials_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
)

func demoScope(tenants ...string) rights.Scope {
	return rights.Scope{Prefix: schemas.DefaultPrefix, Models: []rights.Model{{Name: "demo", MoELayers: []int{0}}}, Tenants: tenants}
}

func made(t *testing.T, s rights.Scope) credentials.Folder {
	t.Helper()
	f, err := credentials.Init(filepath.Join(t.TempDir(), "auth"), credentials.Settings{Scope: s})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func serve(t *testing.T, f credentials.Folder) *natsserver.Server {
	t.Helper()
	trust, err := f.Trust()
	if err != nil {
		t.Fatal(err)
	}
	s, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Trust: trust})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// as connects as a user of the folder, or says why not.
func as(t *testing.T, f credentials.Folder, s *natsserver.Server, user string) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect(s.URL(), nats.Timeout(testkit.Patience), nats.UserCredentials(f.Creds(user)),
		nats.CustomInboxPrefix(rights.InboxOf(user)), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func mustAs(t *testing.T, f credentials.Folder, s *natsserver.Server, user string) *nats.Conn {
	t.Helper()
	nc, err := as(t, f, s, user)
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	return nc
}

// almighty connects as somebody who may do everything in an account, whom the account's own
// key has signed.
func almighty(t *testing.T, f credentials.Folder, s *natsserver.Server, account string) *nats.Conn {
	t.Helper()
	user := f.Almighty(t, account)
	nc, err := nats.Connect(s.URL(), nats.Timeout(testkit.Patience), nats.UserCredentials(f.Creds(user)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// heard says in which accounts what is published in one is heard.
func heard(t *testing.T, all map[string]*nats.Conn, from string, subjects []string) map[string][]string {
	t.Helper()
	subs := map[string]*nats.Subscription{}
	for account, nc := range all {
		sub, err := nc.SubscribeSync(">")
		if err = errors.Join(err, sub.SetPendingLimits(-1, -1), nc.Flush()); err != nil {
			t.Fatal(err)
		}
		subs[account] = sub
	}
	for _, subject := range subjects {
		if err := all[from].Publish(subject, []byte("from "+from)); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string][]string{}
	for account, sub := range subs {
		// What was published before it comes before it, from another account as well.
		if err := errors.Join(all[from].Flush(), all[account].Publish("the.end", nil), all[account].Flush()); err != nil {
			t.Fatal(err)
		}
		for {
			m, err := sub.NextMsg(testkit.Patience)
			if err != nil {
				t.Fatal(err)
			}
			if m.Subject == "the.end" {
				break
			}
			if string(m.Data) == "from "+from {
				out[m.Subject] = append(out[m.Subject], account)
			}
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// heardAs is what an account hears a subject of another one as.
func heardAs(c rights.Crossing, subject string) string {
	if c.As == "" {
		return subject
	}
	return strings.ReplaceAll(c.As, "$1", schemas.LastToken(subject))
}

// heardUnder is the other name of an account's subject, and where it has that; empty: it has none.
func heardUnder(crossings []rights.Crossing, from, subject string) (as, in string) {
	for _, c := range crossings {
		if c.As != "" && c.From == from && rights.Covers([]string{c.Subject}, subject) {
			return heardAs(c, subject), c.To
		}
	}
	return "", ""
}

// crossesTo are the accounts in which a subject is heard when all subjects are published in one, by
// the table.
func crossesTo(crossings []rights.Crossing, from, subject string, all []string) []string {
	to := []string{from}
	for _, c := range crossings {
		renamed := func(other string) bool {
			return rights.Covers([]string{c.Subject}, other) && heardAs(c, other) == subject
		}
		if c.As != "" && c.From == from && slices.ContainsFunc(all, renamed) {
			to = append(to, c.To)
		}
		if there, here := c.To, c.From; rights.Covers([]string{c.Subject}, subject) {
			if c.Service {
				there, here = here, there
			}
			if here == from && c.As == "" {
				to = append(to, there)
			}
		}
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// What is published in an account is heard in another one if the table says so, and only
// then: everything that anybody has a right for, and more, in each account by who may do all.
func TestCrossings(t *testing.T) {
	s := demoScope("acme", "globex")
	f := made(t, s)
	srv := serve(t, f)
	all, cells := map[string]*nats.Conn{}, 0
	for _, account := range s.Accounts() {
		all[account] = almighty(t, f, srv, account)
	}
	subjects := []string{"orders.new", "_INBOX.x", "_INBOX.producer-globex.x", "_R_.x", "switchyard.prompt.other", "switchyard.rejected.demo"}
	for _, u := range rights.Users(s) {
		for _, p := range append(u.Publish(), u.Subscribe()...) {
			if !strings.HasPrefix(p, "$") {
				subjects = append(subjects, sample(p))
			}
		}
	}
	slices.Sort(subjects)
	subjects = slices.Compact(subjects)
	for from := range all {
		got := heard(t, all, from, subjects)
		for _, subject := range subjects {
			in := got[subject]
			slices.Sort(in)
			if want := crossesTo(s.Crossings(), from, subject, subjects); !slices.Equal(in, want) {
				t.Errorf("%s of %s is heard in %v, want %v", subject, from, in, want)
			}
			cells += len(all)
			if as, other := heardUnder(s.Crossings(), from, subject); as != "" && !slices.Contains(got[as], other) {
				t.Errorf("%s of %s is not heard as %s in %s, but in %v", subject, from, as, other, got[as])
			}
		}
	}
	t.Logf("%d accounts, %d cells", len(all), cells)
}

// A producer's reply subject names nothing that is stored: JetStream's acknowledgement of his
// prompt reaches his own account and no stream, whatever it names.
func TestAcknowledgements(t *testing.T) {
	f := made(t, demoScope("acme"))
	srv := serve(t, f)
	js, err := jetstream.New(mustAs(t, f, srv, credentials.Admin))
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PROMPTS", Subjects: []string{"switchyard.prompt.>"}})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REST", Subjects: []string{
		"switchyard.token.>", "switchyard.sequence.>", "switchyard.dlq.>", "switchyard.hidden.>", "switchyard.cancelled.>", "switchyard.stop.>",
		"switchyard.interest.>", "switchyard.load.>", "switchyard.ask.>", "switchyard.replay.>", "switchyard.rejected.>", "$KV.>", "$O.>", "_INBOX.x", "_INBOX.producer.>", "orders.>",
	}})
	if err != nil {
		t.Fatal(err)
	}
	nc := mustAs(t, f, srv, "producer-acme")
	weapons := []string{
		"switchyard.token.demo.0.mine", "switchyard.token.demo.7.none", "switchyard.sequence.demo", "switchyard.dlq.demo.prompt.crash",
		"switchyard.prompt.demo", "switchyard.prompt.demo.default.normal", "switchyard.prompt.demo.acme.normal", "switchyard.hidden.demo.0",
		"switchyard.cancelled.demo.x", "switchyard.stop.demo.x", "switchyard.interest.demo.asked.x", "switchyard.load.demo.ask",
		"switchyard.ask.demo", "switchyard.replay.demo", "switchyard.rejected.demo", "$KV.switchyard_plans_demo.0", "$KV.switchyard_members_demo.x",
		"$O.switchyard_weights_demo.M.x", "$JS.API.STREAM.DELETE.REST", "$JS.API.STREAM.PURGE.PROMPTS", "$JS.ACK.PROMPTS.x.1.1.1.1.1",
		"_INBOX.producer.x", "_INBOX.x", "orders.new", "$SYS.REQ.SERVER.PING", "$SRV.PING",
	}
	for i, weapon := range weapons {
		for _, m := range []*nats.Msg{
			{Subject: "switchyard.prompt.demo.acme.low", Reply: weapon, Data: []byte("x")},
			{Subject: "switchyard.prompt.demo.acme.low", Reply: weapon, Data: []byte("x"), Header: nats.Header{"Nats-Msg-Id": {fmt.Sprint("id-", i)}}},
			{Subject: "switchyard.prompt.demo.acme.low", Data: []byte("x"), Header: nats.Header{"Nats-Trace-Dest": {weapon}}},
		} {
			if err := nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := nc.Request("switchyard.prompt.demo.acme.low", nil, testkit.Patience); err != nil { // what came before it is acknowledged
		t.Fatal(err)
	}
	traces := 1 // of his own subject, where he might have published it himself
	if info, err := prompts.Info(t.Context()); err != nil || info.State.Msgs > uint64(3*len(weapons)+1+traces) {
		t.Errorf("%d prompts are stored (%v)", info.State.Msgs, err)
	}
	if info, err := rest.Info(t.Context(), jetstream.WithSubjectFilter(">")); err != nil || info.State.Msgs != 0 {
		t.Errorf("%v are stored (%v)", info.State.Subjects, err)
	}
	if at, err := prompts.Info(t.Context(), jetstream.WithSubjectFilter("switchyard.prompt.demo.default.*")); err != nil || len(at.State.Subjects) > 0 {
		t.Errorf("another tenant has the prompts %v (%v)", at.State.Subjects, err)
	}
}

// A producer has his bounds, and takes nothing of another tenant's or of the tokenizers'.
func TestBounds(t *testing.T) {
	s := demoScope("acme")
	s.Bounds = rights.Bounds{Payload: 8 << 10, Subs: 20, Conns: 3}
	f := made(t, s)
	srv := serve(t, f)
	var conns []*nats.Conn
	for range s.Bounds.Conns {
		conns = append(conns, mustAs(t, f, srv, "producer-acme"))
	}
	if _, err := as(t, f, srv, "producer-acme"); !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
		t.Errorf("a connection too many: %v", err)
	}
	for _, user := range []string{"producer", rights.Edge, "gate", "tokenizer"} {
		if _, err := as(t, f, srv, user); err != nil {
			t.Errorf("%s beside a tenant with all his connections: %v", user, err)
		}
	}
	if limit := conns[0].MaxPayload(); limit != s.Bounds.Payload {
		t.Errorf("a producer's message may have %d bytes", limit)
	}
	if limit := mustAs(t, f, srv, rights.Edge).MaxPayload(); limit != natsserver.DefaultMaxPayload {
		t.Errorf("an answer may have %d bytes", limit)
	}
	refused := make(chan error, 1)
	conns[0].SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case refused <- err:
		default:
		}
	})
	inbox := conns[0].NewInbox()
	for range s.Bounds.Subs + 1 {
		if _, err := conns[0].SubscribeSync(inbox); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
			t.Errorf("a subscription too many: %v", err)
		}
	case <-time.After(testkit.Patience):
		t.Error("it has subscriptions without end")
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A folder of before producers had accounts gets them. Who has credentials of before goes on
// publishing prompts with them, and gets their answers, until they are revoked.
func TestUpdateMoves(t *testing.T) {
	s := demoScope("acme")
	f := made(t, s)
	creds := f.Before(t, s)
	srv := serve(t, f)
	if err := f.Check(s); !errors.Is(err, credentials.ErrNoRights) || !strings.Contains(err.Error(), "auth update") {
		t.Errorf("before: %v", err)
	}
	if _, err := f.Rotate(credentials.Renewal{}); err == nil || !strings.Contains(err.Error(), "auth update") {
		t.Errorf("rotating before: %v", err)
	}
	update := func(revoke bool) credentials.Change {
		t.Helper()
		c, err := f.Update(credentials.Changes{Scope: s, Revoke: revoke})
		must(t, err, f.Check(s))
		trust, err := f.Trust()
		must(t, err, srv.Believe(trust))
		return c
	}
	if c := update(false); !slices.Equal(c.Moved, []string{"gateway", "producer", "producer-acme"}) || !slices.Equal(c.Made, []string{rights.Edge}) || len(c.Removed) > 0 {
		t.Errorf("%+v", c)
	}
	if c := update(false); len(c.Moved)+len(c.Made)+len(c.Removed) > 0 {
		t.Errorf("the second time: %+v", c)
	}
	old := filepath.Join(t.TempDir(), "old.creds")
	must(t, os.WriteFile(old, []byte(creds["producer-acme"]), 0o600))
	login := func() (*nats.Conn, error) {
		return nats.Connect(srv.URL(), nats.Timeout(testkit.Patience), nats.UserCredentials(old), nats.CustomInboxPrefix("_INBOX.producer-acme"), nats.NoReconnect())
	}
	late, err := login()
	must(t, err)
	t.Cleanup(late.Close)
	services := mustAs(t, f, srv, credentials.Admin)
	stored, err := services.SubscribeSync("switchyard.prompt.>")
	must(t, err, services.Flush())
	answers, err := late.SubscribeSync("_INBOX.producer-acme.>")
	must(t, err, late.Publish("switchyard.prompt.demo.acme.low", nil), late.Flush())
	if _, err := stored.NextMsg(testkit.Patience); err != nil {
		t.Errorf("a prompt with credentials of before: %v", err)
	}
	must(t, mustAs(t, f, srv, rights.Edge).Publish("_INBOX.producer-acme.x", nil))
	if _, err := answers.NextMsg(testkit.Patience); err != nil {
		t.Errorf("its answer: %v", err)
	}
	mustAs(t, f, srv, "producer-acme")
	if !may(t, mustAs(t, f, srv, "tokenizer"), "_INBOX.producer.x") {
		t.Error("a tokenizer of before may not answer them any more")
	}
	if c := update(true); !slices.Equal(c.Revoked, []string{"gateway", "producer", "producer-acme"}) || len(c.Removed) > 0 {
		t.Errorf("revoking: %+v", c)
	}
	if may(t, mustAs(t, f, srv, "tokenizer"), "_INBOX.producer.x") {
		t.Error("a tokenizer may answer them in the services' account")
	}
	if _, err := login(); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("with revoked credentials: %v", err)
	}
	mustAs(t, f, srv, "producer-acme")
	if imports := f.Imports(t, rights.ServicesAccount); len(imports) != 1 {
		t.Errorf("the services import %v", imports)
	}
	users, err := f.Users()
	must(t, err)
	if want := slices.Sorted(maps.Keys(creds)); !slices.Contains(users, want[0]) || !slices.Contains(users, want[1]) {
		t.Errorf("the users are %v", users)
	}
}

// A tenant who is no more is nobody on a server that has known him.
func TestTenantLeaves(t *testing.T) {
	s := demoScope("acme")
	f := made(t, s)
	srv := serve(t, f)
	mustAs(t, f, srv, "producer-acme")
	data, err := os.ReadFile(f.Creds("producer-acme"))
	must(t, err)
	change := func(s rights.Scope) {
		t.Helper()
		_, err := f.Update(credentials.Changes{Scope: s})
		must(t, err)
		trust, err := f.Trust()
		must(t, err, srv.Believe(trust))
	}
	change(demoScope())
	must(t, os.WriteFile(f.Creds("gone"), data, 0o600))
	if _, err := as(t, f, srv, "gone"); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("his credentials: %v", err)
	}
	change(s)
	if _, err := as(t, f, srv, "gone"); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("his credentials of before, when he is there again: %v", err)
	}
	mustAs(t, f, srv, "producer-acme")
}

// What producers fetch again and cancel reaches tokenizers under their tenant's name, whatever they
// do, and answers come back; gateways name the tenant themselves.
func TestTenantsAreNamed(t *testing.T) {
	f := made(t, demoScope("acme", "globex"))
	srv := serve(t, f)
	edge := mustAs(t, f, srv, rights.Edge)
	heard := make(chan *nats.Msg, 16)
	for _, subject := range []string{"switchyard.replay.demo", "switchyard.replay.demo.*", "switchyard.cancel.demo.*", "switchyard.cancel.demo.*.*", "switchyard.forget.demo.*.*"} {
		if _, err := edge.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	if err := edge.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ user, subject, as string }{
		{"producer", "switchyard.replay.demo", "switchyard.replay.demo.default"}, {"producer", "switchyard.cancel.demo.r1", "switchyard.cancel.demo.default.r1"},
		{"producer-acme", "switchyard.replay.demo", "switchyard.replay.demo.acme"}, {"producer-acme", "switchyard.cancel.demo.r1", "switchyard.cancel.demo.acme.r1"},
		{"producer-globex", "switchyard.replay.demo", "switchyard.replay.demo.globex"}, {"producer-globex", "switchyard.cancel.demo.acme", "switchyard.cancel.demo.globex.acme"},
		{"gateway", "switchyard.replay.demo.acme", "switchyard.replay.demo.acme"}, {"gateway", "switchyard.cancel.demo.default.r1", "switchyard.cancel.demo.default.r1"},
		{"gateway", "switchyard.forget.demo.globex.r1", "switchyard.forget.demo.globex.r1"},
	} {
		nc := mustAs(t, f, srv, tc.user)
		answers, err := nc.SubscribeSync(nc.NewInbox())
		if err = errors.Join(err, nc.PublishRequest(tc.subject, answers.Subject, []byte("x")), nc.Flush()); err != nil {
			t.Fatal(err)
		}
		select {
		case m := <-heard:
			if m.Subject != tc.as || m.Reply != answers.Subject {
				t.Errorf("%s of %s is heard as %s with reply %s", tc.subject, tc.user, m.Subject, m.Reply)
			}
			if err := edge.Publish(m.Reply, []byte("y")); err != nil {
				t.Fatal(err)
			}
		case <-time.After(testkit.Patience):
			t.Fatalf("%s of %s is not heard", tc.subject, tc.user)
		}
		if _, err := answers.NextMsg(testkit.Patience); err != nil {
			t.Errorf("%s of %s is not answered: %v", tc.subject, tc.user, err)
		}
	}
	for _, user := range []string{"producer", "producer-acme"} {
		nc := mustAs(t, f, srv, user)
		for _, subject := range []string{"switchyard.replay.demo.globex", "switchyard.replay.demo.acme", "switchyard.replay.demo.default", "switchyard.cancel.demo.globex.r1", "switchyard.cancel.demo.acme.r1", "switchyard.forget.demo.acme.r1", "switchyard.cancelled.demo.acme.r1"} {
			if err := errors.Join(nc.Publish(subject, nil), nc.Flush()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := edge.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(heard) > 0 {
		t.Errorf("%s of a producer is heard", (<-heard).Subject)
	}
}
