package schemas

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var subjects = NewSubjects(DefaultPrefix, "demo")

func TestSubjects(t *testing.T) {
	s := NewSubjects("yard", "a b.c")
	for _, tc := range []struct{ got, want string }{
		{s.Ask(), "yard.ask.a_b_c"},
		{s.Prompt(), "yard.prompt.a_b_c"},
		{s.PromptOf(Flow{"acme", ClassHigh}), "yard.prompt.a_b_c.acme.high"},
		{s.AskOf(Flow{"acme", ""}), "yard.ask.a_b_c.acme.normal"},
		{s.AskOf(Flow{"", ClassLow}), "yard.ask.a_b_c.default.low"},
		{s.PromptOf(DefaultFlow()), "yard.prompt.a_b_c"},
		{fmt.Sprint(s.Prompts()), "[yard.prompt.a_b_c yard.prompt.a_b_c.*.*]"},
		{fmt.Sprint(s.AnyPrompt()), "[yard.prompt.* yard.prompt.*.*.*]"},
		{fmt.Sprint(s.AnyAsk()), "[yard.ask.* yard.ask.*.*.*]"},
		{s.Replay(), "yard.replay.a_b_c"},
		{fmt.Sprint(s.Replays()), "[yard.replay.a_b_c yard.replay.a_b_c.*]"},
		{fmt.Sprint(s.AnyCancels()), "[yard.cancel.a_b_c.* yard.cancel.a_b_c.*.*]"},
		{s.AnyForget(), "yard.forget.a_b_c.*.*"},
		{s.CancelledOf("acme", "r1"), "yard.cancelled.a_b_c.acme.r1"},
		{s.TenantOf(s.Replay()) + "|" + s.TenantOf(s.Cancel("r1")), "|"},
		{s.TenantOf(s.ReplayOf("acme")) + s.TenantOf(s.CancelOf("b", "r1")) + s.TenantOf(s.Forget("c", "r1")) + s.TenantOf(s.CancelledOf("d", "r1")), "acmebcd"},
		{s.Rejected(), "yard.rejected.a_b_c"},
		{s.Sequence(), "yard.sequence.a_b_c"},
		{s.Cancel("r1"), "yard.cancel.a_b_c.r1"},
		{s.AnyCancel(), "yard.cancel.a_b_c.*"},
		{s.TokenShard(3), "yard.token.a_b_c.3.*"},
		{s.AnyToken(), "yard.token.a_b_c.*.*"},
		{s.Step(), "yard.step.a_b_c"},
		{s.Hidden(7), "yard.hidden.a_b_c.7"},
		{s.Gate("g"), "yard.gate.a_b_c.g"},
		{s.AnyGate(), "yard.gate.a_b_c.*"},
		{s.Host("h"), "yard.host.a_b_c.h"},
		{s.AnyHost(), "yard.host.a_b_c.*"},
		{s.Expert(7, "f0"), "yard.expert.a_b_c.7.f0"},
		{s.AnyExpert(7), "yard.expert.a_b_c.7.*"},
		{s.Partial("g"), "yard.partial.a_b_c.g"},
		{s.Block("at"), "yard.block.a_b_c.at"},
		{s.Load(), "yard.load.a_b_c"},
		{s.LoadAsk(), "yard.load.a_b_c.ask"},
		{s.Stop("r1"), "yard.stop.a_b_c.r1"},
		{s.AnyStop(), "yard.stop.a_b_c.*"},
		{s.Probe("tk", "r1", 7), "yard.probe.a_b_c.tk.r1.7"},
		{s.AnyProbe("tk"), "yard.probe.a_b_c.tk.*.*"},
		{s.Interest("held", "r1"), "yard.interest.a_b_c.held.r1"},
		{s.AnyInterest("held"), "yard.interest.a_b_c.held.*"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s, want %s", tc.got, tc.want)
		}
	}
}

// Each message has a subject, which is made for it.
func TestSubjectsAllocateOnce(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = subjects.Expert(7, "f1") }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestCheckReplyTo(t *testing.T) {
	for _, tc := range []struct {
		subject string
		problem string // empty: none
	}{
		{"_INBOX.abc.1", ""},
		{"answers", ""},
		{"team.answers.7", ""},
		{"switchyards.mine", ""},
		{"straße.7", ""},
		{"", "empty"},
		{"answers.*", "wildcard"},
		{"answers.>", "wildcard"},
		{">", "wildcard"},
		{"an swer", "white space"},
		{"answer\r\nPUB x 0", "white space"},
		{"a\x00b", "unprintable"},
		{"a\xffb", "unprintable"},
		{"a..b", "empty token"},
		{".a", "empty token"},
		{"a.", "empty token"},
		{"switchyard", "internal"},
		{"switchyard.token.demo.0.r", "internal"},
		{"$JS.API.STREAM.DELETE.x", "internal"},
		{"$SYS.REQ", "internal"},
		{"$KV.bucket.key", "internal"},
		{"$O.bucket.M.x", "internal"},
		{"_GR_.abcdef.abcdef.$JS.API.STREAM.DELETE.x", "internal"},
		{"_R_.x.y", "internal"},
		{"switchyard.prompt.other", "internal"},
		{"switchyards.answers", ""},
		{strings.Repeat("a", MaxReplyTo), ""},
		{strings.Repeat("a", MaxReplyTo+1), "at most 1024"},
	} {
		err := subjects.CheckReplyTo(tc.subject)
		switch {
		case tc.problem == "" && err != nil:
			t.Errorf("%q: %v", tc.subject, err)
		case tc.problem != "" && err == nil:
			t.Errorf("%q was taken, want an error about %s", tc.subject, tc.problem)
		case err != nil && (!strings.Contains(err.Error(), tc.problem) || !strings.Contains(err.Error(), "reply_to")):
			t.Errorf("%q: %v; want reply_to and %q in it", tc.subject, err, tc.problem)
		}
	}
}

func TestCheckInbox(t *testing.T) {
	prefixes := []string{DefaultInboxPrefix, "_INBOX_alice."}
	for subject, problem := range map[string]string{
		"_INBOX.abc": "", "_INBOX.abc.1": "", "_INBOX_alice.x": "",
		"": "empty", "_INBOX": "no inbox", "_INBOX.": "empty token", "_INBOX.>": "wildcard", "_INBOX.a b": "white space",
		"$JS.API.STREAM.DELETE.x": "no inbox", "switchyard.token.demo.0.r": "no inbox", "answers.1": "no inbox", "_INBOX_bob.x": "no inbox",
		"_INBOX." + strings.Repeat("a", MaxReplyTo): "at most",
	} {
		err := subjects.CheckInbox(subject, prefixes)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", subject, err, problem)
		}
	}
}

func TestCheckInboxPrefix(t *testing.T) {
	for prefix, good := range map[string]bool{
		"_INBOX.": true, "_INBOX_bob.": true, "replies": true, "_R_.": true,
		"": false, ".": false, "$": false, "$JS.": false, "switchyard.": false, "switchyard.ask": false, "s": false, "_GR_.": false, "a..": false, "*.": false,
	} {
		if err := subjects.CheckInboxPrefix(prefix); (err == nil) != good {
			t.Errorf("%q: %v, want good %v", prefix, err, good)
		}
	}
}

func TestParseProbe(t *testing.T) {
	request, stream, err := subjects.ParseProbe(subjects.Probe("tk", "r-1", 42))
	if request != "r-1" || stream != 42 || err != nil {
		t.Errorf("%s, %d, %v", request, stream, err)
	}
	for _, subject := range []string{"", "switchyard.probe.demo.tk.r", "switchyard.probe.demo.tk.r.x", "switchyard.probe.demo.tk.*.1", "switchyard.probe.demo.tk.r.1.2", "other.probe.demo.tk.r.1"} {
		if _, _, err := subjects.ParseProbe(subject); err == nil {
			t.Errorf("%q was taken", subject)
		}
	}
}

func TestCheckRequestID(t *testing.T) {
	for id, good := range map[string]bool{
		"a": true, "A-z_09": true, strings.Repeat("x", MaxRequestID): true,
		"": false, "a.b": false, "a b": false, "*": false, ">": false, "ä": false, "a\x00": false, "\xff": false,
		strings.Repeat("x", MaxRequestID+1): false,
	} {
		err := CheckRequestID(id)
		if (err == nil) != good {
			t.Errorf("%q: %v, want good %v", id, err, good)
		}
		if err != nil && !strings.Contains(err.Error(), "request_id") {
			t.Errorf("%q: %v does not name the field", id, err)
		}
	}
}

func TestModelToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		token := ModelToken(name)
		if strings.ContainsFunc(token, func(r rune) bool { return !isTokenRune(r) }) {
			t.Fatalf("%q became %q", name, token)
		}
		if ModelToken(token) != token {
			t.Fatalf("%q changed again", token)
		}
	})
}

// Every request has one shard, its log subject is matched by that shard's
// filter, and the shards share the requests.
func TestShards(t *testing.T) {
	used := map[int]int{}
	for i := range 400 {
		id := "request-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		shard := ShardOf(id)
		used[shard]++
		if want := strings.TrimSuffix(subjects.TokenShard(shard), "*") + id; subjects.Token(id) != want {
			t.Fatalf("%s, want %s", subjects.Token(id), want)
		}
	}
	if len(used) != LogShards {
		t.Errorf("shards %v, want %d of them", used, LogShards)
	}
}

// What passes the check is one publishable subject outside the system's own.
func FuzzCheckReplyTo(f *testing.F) {
	for _, s := range []string{"_INBOX.x", "a..b", "switchyard.ask", "$JS", "a.*", "a\tb", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		if subjects.CheckReplyTo(subject) != nil {
			return
		}
		for token := range strings.SplitSeq(subject, ".") {
			if token == "" || strings.ContainsAny(token, "*> \t\r\n\v\f\x00") {
				t.Errorf("token %q of %q was taken", token, subject)
			}
		}
		if strings.HasPrefix(subject, "$") || subject == DefaultPrefix || strings.HasPrefix(subject, DefaultPrefix+".") {
			t.Errorf("%q is internal", subject)
		}
	})
}

func FuzzCheckRequestID(f *testing.F) {
	for _, s := range []string{"abc", "a.b", "", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if CheckRequestID(id) == nil && (ModelToken(id) != id || id == "" || len(id) > MaxRequestID) {
			t.Errorf("%q was taken", id)
		}
	})
}

// What a probe's subject names comes out of it again, and what comes out of any
// subject is a request's id.
func FuzzParseProbe(f *testing.F) {
	for _, s := range []string{"switchyard.probe.demo.tokenizer-1.r.3", "switchyard.probe.demo.t.a b.3", "switchyard.probe.demo.t.r.x", ".", ""} {
		f.Add(s, "r", uint64(3))
	}
	f.Fuzz(func(t *testing.T, subject, request string, stream uint64) {
		if id, _, err := subjects.ParseProbe(subject); err == nil && CheckRequestID(id) != nil {
			t.Errorf("%q is of request %q", subject, id)
		}
		if CheckRequestID(request) != nil {
			return
		}
		id, number, err := subjects.ParseProbe(subjects.Probe("tokenizer-1", request, stream))
		if err != nil || id != request || number != stream {
			t.Errorf("request %q, stream %d came back as %q, %d: %v", request, stream, id, number, err)
		}
	})
}

// A name tells whose producers' an inbox is, if it is one's.
func TestCheckInboxOf(t *testing.T) {
	for _, tc := range []struct {
		tenant, subject string
		ok              bool
	}{
		{"acme", "_INBOX.producer-acme.x", true},
		{"acme", "_INBOX.producer-acme", true},
		{"acme", "_INBOX.producer-acmes.x", false},
		{"acme", "_INBOX.producer.x", false},
		{"acme", "_INBOX.producers.x", true},
		{"acme", "_INBOX.x.producer", true},
		{"acme", "answers", true},
		{DefaultTenant, "_INBOX.producer.x", true},
		{DefaultTenant, "_INBOX.producer-acme.x", false},
	} {
		if err := CheckInboxOf(tc.tenant, tc.subject); (err == nil) != tc.ok {
			t.Errorf("%s, %s: %v", tc.tenant, tc.subject, err)
		}
	}
}
