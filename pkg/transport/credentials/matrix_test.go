package credentials_test

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// nobodys are subjects that no user has a right for, beside those of others.
var nobodys = []string{
	"orders.new", "switchyard", "switchyard.other", "switchyard.prompt.other", "switchyard.ask.other", "switchyard.cancel.other.x",
	"switchyard.token.other.0.x", "yard.prompt.demo", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.x.CLAIMS.UPDATE", "$JS.API.STREAM.CREATE.mine",
	"$JS.API.STREAM.INFO.other", "$JS.API.META.LEADER.STEPDOWN.x", "$JS.API.ACCOUNT.PURGE.x", "$JS.API.CONSUMER.LIST.switchyard_TOKENS_demo",
	"$JS.FC.x", "$KV.switchyard_plans_other.x", "$O.switchyard_weights_other.M.x", "_INBOX", "_INBOX_x.x", "_R_.x", "_GR_.x",
}

// wide are subscriptions that take in what others get.
var wide = []string{
	">", "*", "*.>", "*.*", "*.*.*", "*.*.*.*", "switchyard.>", "switchyard.*.demo", "switchyard.prompt.>", "switchyard.token.>", "switchyard.token.demo.>",
	"_INBOX.>", "_INBOX.*", "_INBOX.*.>", "_INBOX.*.x", "_INBOX_x.>", "$JS.>", "$JS.API.>", "$KV.>", "$KV.*.>", "$KV.switchyard_plans_demo.*",
	"$SYS.>", "$O.>", "_R_.>",
}

// spoiling are calls of JetStream's API that change or delete.
var spoiling = []string{
	"STREAM.DELETE", "STREAM.PURGE", "STREAM.UPDATE", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT", "STREAM.RESTORE", "STREAM.LEADER.STEPDOWN",
	"STREAM.PEER.REMOVE", "CONSUMER.NAMES", "CONSUMER.LIST",
}

var streamName = regexp.MustCompile(`^\$JS\.API\.STREAM\.CREATE\.(.+)$`)

// subjects are all of the matrix: one for each right that anybody has, and those that nobody has.
func subjects(users []rights.User) (all []string) {
	seen := map[string]bool{}
	for _, s := range nobodys {
		seen[s] = true
	}
	for _, u := range users {
		for _, s := range append(u.Publish(), u.Subscribe()...) {
			seen[sample(s)] = true
			if m := streamName.FindStringSubmatch(s); m != nil {
				for _, call := range spoiling {
					seen["$JS.API."+call+"."+m[1]] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// sample returns one subject that a pattern stands for.
func sample(pattern string) string {
	tokens := strings.Split(pattern, ".")
	for i, t := range tokens {
		if t == "*" || t == ">" {
			tokens[i] = "x"
		}
	}
	return strings.Join(tokens, ".")
}

// maySubscribe reports whether a server with these rights allows a subscription. It takes
// ">" at the end of a subscription for a token that "*" at the end of a right stands for,
// so that a right for "a.*" is one for "a.>".
func maySubscribe(allowed []string, subject string) bool {
	return rights.Covers(allowed, subject) || strings.HasSuffix(subject, ".>") &&
		slices.ContainsFunc(allowed, func(p string) bool {
			return strings.HasSuffix(p, ".*") && rights.Covers([]string{p}, strings.TrimSuffix(subject, ">")+"x")
		})
}

func TestMaySubscribe(t *testing.T) {
	for subject, want := range map[string]bool{"a.>": true, "a.x.>": false, "a.*": true, ">": false, "b.>": false} {
		if got := maySubscribe([]string{"a.*", "c.*.b"}, subject); got != want {
			t.Errorf("may subscribe %s: %v", subject, got)
		}
	}
	if got := sample("a.*.b.>"); got != "a.x.b.x" {
		t.Errorf("sample %s", got)
	}
}

// Each user may publish and subscribe what the table of rights says, and nothing else:
// every user tries every subject, in both ways.
func TestMatrix(t *testing.T) {
	f, cells := folder(t), 0
	s := testusers.Serve(t, testusers.Plain(t, f)) // thousands of refusals cost less without TLS
	users := rights.Users(settings().Scope)
	all := subjects(users)
	for _, u := range users {
		nc := login(t, f, s, u.Name, nats.CustomInboxPrefix(u.Inbox))
		listened := slices.Concat(all, wide, patterns(users))
		cells += check(t, u.Name+" publishes", all, u.Publish(), rights.Covers, refusals(t, nc, "Publish", all, func(s string) error { return nc.Publish(s, nil) }))
		cells += check(t, u.Name+" subscribes", listened, u.Subscribe(), maySubscribe, refusals(t, nc, "Subscription", listened, func(s string) error {
			_, err := nc.SubscribeSync(s)
			return err
		}))
	}
	t.Logf("%d users, %d cells", len(users), cells)
}

// patterns are the rights themselves, with their wildcards, and what is a bit wider.
func patterns(users []rights.User) (all []string) {
	for _, u := range users {
		for _, s := range u.Subscribe() {
			all = append(all, s, s[:strings.LastIndexByte(s, '.')]+".>", s[:strings.LastIndexByte(s, '.')]+".*")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// check compares what the server refused with the table.
func check(t *testing.T, who string, tried, allowed []string, may func([]string, string) bool, refused map[string]bool) (cells int) {
	t.Helper()
	for _, subject := range tried {
		if want := !may(allowed, subject); refused[subject] != want {
			t.Errorf("%s %s: refused %v, want %v", who, subject, refused[subject], want)
		}
		cells++
	}
	return cells
}

// last is refused to everybody; when its refusal has come, those before it have.
const last = "nobody.may.this"

// refusals tries all subjects, and returns those that the server refused.
func refusals(t *testing.T, nc *nats.Conn, verb string, all []string, try func(string) error) map[string]bool {
	t.Helper()
	refused := map[string]bool{}
	said := make(chan error, len(all)+1)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { said <- err })
	for _, subject := range append(slices.Clone(all), last) {
		if err := try(subject); err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	for end := time.After(testkit.Patience); !refused[last]; {
		select {
		case err := <-said:
			if subject := refusedSubject(err, verb); subject != "" {
				refused[subject] = true
			} else {
				t.Errorf("not a refusal: %v", err)
			}
		case <-end:
			t.Fatal("the server did not refuse", last)
		}
	}
	return refused
}

// refusedSubject is the subject of a server's refusal; empty if it is none.
func refusedSubject(err error, verb string) string {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return ""
	}
	_, rest, ok := strings.Cut(err.Error(), verb+" to \"")
	subject, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		return ""
	}
	return subject
}
