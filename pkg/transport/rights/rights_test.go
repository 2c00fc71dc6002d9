package rights

import (
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/schemas"
)

func users(tenants ...string) []User {
	return Users(Scope{Prefix: schemas.DefaultPrefix, Models: []Model{{Name: "demo", MoELayers: []int{0, 2}}}, Tenants: tenants})
}

func find(t *testing.T, all []User, name string) User {
	t.Helper()
	i := slices.IndexFunc(all, func(u User) bool { return u.Name == name })
	if i < 0 {
		t.Fatalf("no user %s", name)
	}
	return all[i]
}

// Every right has a reason, and says something; every user is explained.
func TestReasons(t *testing.T) {
	for _, u := range users("acme") {
		if u.What == "" || u.Can == "" || u.Cannot == "" || !strings.HasPrefix(u.Inbox, "_INBOX") {
			t.Errorf("%s is not explained: %+v", u.Name, u)
		}
		for _, g := range u.Grants {
			if !strings.HasPrefix(g.Reason, "to ") || len(g.Publish)+len(g.Subscribe) == 0 {
				t.Errorf("%s: %+v", u.Name, g)
			}
		}
		if !slices.Contains(u.Subscribe(), u.Inbox+".>") {
			t.Errorf("%s may not read its inboxes", u.Name)
		}
	}
}

// No user may publish or read everything of anything that others share.
func TestNarrow(t *testing.T) {
	for _, u := range users("acme") {
		for _, s := range append(u.Publish(), u.Subscribe()...) {
			if n := strings.Count(s, ".") + 1; n < 2 || s == "switchyard.>" || s == "$KV.>" || strings.HasPrefix(s, "$JS.>") || strings.HasPrefix(s, "$JS.API.>") || s == "_INBOX.>" && u.Name != Edge {
				t.Errorf("%s has %s", u.Name, s)
			}
		}
		if Covers(u.Subscribe(), "_INBOX.>") {
			t.Errorf("%s reads every producer's answers", u.Name)
		}
	}
}

func TestTenants(t *testing.T) {
	all := users("a", "b")
	for _, tc := range []struct {
		user, subject string
		want          bool
	}{
		{"producer", "switchyard.prompt.demo", true},
		{"producer", "switchyard.prompt.demo.default.high", true},
		{"producer", "switchyard.prompt.demo.a.high", false},
		{"producer", "switchyard.prompt.other", false},
		{"producer-a", "switchyard.prompt.demo.a.high", true},
		{"producer-a", "switchyard.ask.demo.a.low", true},
		{"producer-a", "switchyard.prompt.demo.b.high", false},
		{"producer-a", "switchyard.prompt.demo", false},
		{"producer-a", "switchyard.ask.demo.default.high", false},
		{"producer-a", "switchyard.cancel.demo.x", true},
		{"producer-b", "_INBOX.producer-b.x", false},
	} {
		if got := Covers(find(t, all, tc.user).Publish(), tc.subject); got != tc.want {
			t.Errorf("%s on %s: %v", tc.user, tc.subject, got)
		}
	}
	if got := find(t, all, "producer-b").Inbox; got != "_INBOX.producer-b" {
		t.Errorf("inbox %s", got)
	}
}

// A second model's subjects stand beside the first one's, under the same reasons.
func TestModels(t *testing.T) {
	s := Scope{Prefix: "yard", Models: []Model{{Name: "a", MoELayers: []int{1}}, {Name: "b.c"}}}
	gate := Users(s)[2]
	for _, subject := range []string{"yard.expert.a.1.f", "yard.expert.b_c.0.f", "$JS.ACK.yard_HIDDEN_b_c.x"} {
		if !Covers(gate.Publish(), subject) {
			t.Errorf("%s may not publish %s", gate.Name, subject)
		}
	}
	if one := Users(Scope{Prefix: "yard", Models: s.Models[:1]})[2]; len(one.Grants) != len(gate.Grants) {
		t.Errorf("%d grants for two models, %d for one", len(gate.Grants), len(one.Grants))
	}
}

// Who takes tensors may do so however they travel: out of streams, and as they come.
// A predictor only listens.
func TestHops(t *testing.T) {
	streams := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}.Tensors([]int{0, 2})
	for _, u := range users() {
		for _, s := range streams {
			pulls := Covers(u.Publish(), "$JS.API.CONSUMER.MSG.NEXT."+s.Name+".x")
			if listens := Covers(u.Subscribe(), s.Subjects[0]); pulls != listens && (pulls || u.Name != "predictor") {
				t.Errorf("%s: pulls from %s %v, listens to %s %v", u.Name, s.Name, pulls, s.Subjects[0], listens)
			}
		}
	}
}

// Only where objects are wanted may services move rows through them, each as far as it does.
func TestObjects(t *testing.T) {
	const store, read, purge = "$O.switchyard_TRANSFER_demo.C.a.b.0", "$JS.API.DIRECT.GET.OBJ_switchyard_TRANSFER_demo.x", "$JS.API.STREAM.PURGE.OBJ_switchyard_TRANSFER_demo"
	s := Scope{Prefix: schemas.DefaultPrefix, Models: []Model{{Name: "demo", MoELayers: []int{0}, Objects: true}}}
	may := map[string][]string{store: {"gate", "expert"}, read: {"expert", "aggregator"}, purge: {"aggregator"}}
	for subject, who := range may {
		for _, u := range Users(s) {
			if got := Covers(u.Publish(), subject); got != slices.Contains(who, u.Name) {
				t.Errorf("with objects %s may use %s: %v", u.Name, subject, got)
			}
		}
		for _, u := range users() {
			if Covers(u.Publish(), subject) {
				t.Errorf("without objects %s may use %s", u.Name, subject)
			}
		}
	}
}

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.*", "a.b", true},
		{"a.*", "a.*", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a.*.>", true},
		{"a.>", "a", false},
		{"a.>", ">", false},
		{"a.*", "a.>", false},
		{"a.*", "a.b.c", false},
		{"a.b", "a.*", false},
		{"a.b.c", "a.b", false},
		{">", "a", true},
		{"*", ">", false},
	} {
		if got := Covers([]string{tc.pattern}, tc.subject); got != tc.want {
			t.Errorf("%s covers %s: %v", tc.pattern, tc.subject, got)
		}
	}
}

func TestInboxOf(t *testing.T) {
	for user, want := range map[string]string{"gate": "_INBOX_gate", "top": "_INBOX_top", "producer": "_INBOX.producer", "producer-a": "_INBOX.producer-a"} {
		if got := InboxOf(user); got != want {
			t.Errorf("%s: %s, want %s", user, got, want)
		}
	}
}
