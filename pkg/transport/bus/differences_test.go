package bus

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

func TestDifferences(t *testing.T) {
	tokens := func(change func(*jetstream.StreamConfig)) jetstream.StreamConfig {
		c := streamConfig(names(schemas.HopsAcked).Tokens(), 1)
		change(&c)
		return c
	}
	want := tokens(func(*jetstream.StreamConfig) {})
	for _, tc := range []struct {
		name   string
		have   func(*jetstream.StreamConfig)
		cure   Cure
		ending string // of the command
	}{
		{"rollups denied", func(c *jetstream.StreamConfig) { c.AllowRollup = false }, ByService, "edit --force test_TOKENS_m --allow-rollup"},
		{"younger", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, BySetup, "--max-age=2h0m0s"},
		{"older", func(c *jetstream.StreamConfig) { c.MaxAge = 3 * time.Hour }, ByHand, "--max-age=2h0m0s"},
		{"for ever", func(c *jetstream.StreamConfig) { c.MaxAge = 0 }, ByHand, "--max-age=2h0m0s"},
		{"smaller", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, BySetup, "--max-bytes=4294967296"},
		{"larger", func(c *jetstream.StreamConfig) { c.MaxBytes = 5 << 30 }, ByHand, "--max-bytes=4294967296"},
		{"unbounded", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, ByHand, "--max-bytes=4294967296"},
		{"one of each subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, BySetup, "--max-msgs-per-subject=-1"},
		{"drops the oldest", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, BySetup, "--discard=new"},
		{"three copies", func(c *jetstream.StreamConfig) { c.Replicas = 3 }, ByHand, "--replicas=1"},
		{"no subject", func(c *jetstream.StreamConfig) { c.Subjects = nil }, ByService, "--subjects='test.token.m.*.*'"},
		{"another subject", func(c *jetstream.StreamConfig) { c.Subjects = []string{"_INBOX.>"} }, ByHand, "--subjects='test.token.m.*.*'"},
		{"one more subject", func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "test.ask.>") }, ByHand, "--subjects='test.token.m.*.*'"},
		{"in memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, ByHand, "nats stream rm --force test_TOKENS_m"},
		{"a queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, ByHand, "nats stream rm --force test_TOKENS_m"},
		{"a copy", func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "other"} }, ByHand, "nats stream rm --force test_TOKENS_m"},
		{"with a source", func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "other"}} }, ByHand, "nats stream rm --force test_TOKENS_m"},
		{"sent on", func(c *jetstream.StreamConfig) { c.RePublish = &jetstream.RePublish{Destination: "x"} }, ByHand, "edit --force test_TOKENS_m --no-republish"},
	} {
		have := tokens(tc.have)
		got := Differences(have, want)
		if len(got) != 1 || got[0].Cure != tc.cure || got[0].Stream != want.Name || !strings.HasSuffix(got[0].Command, tc.ending) {
			t.Errorf("%s: %+v", tc.name, got)
			continue
		}
		for _, upTo := range []Cure{ByService, BySetup} {
			to, mended, left := Mend(have, want, upTo)
			if (len(mended) == 1) != (tc.cure <= upTo) || len(mended)+len(left) != 1 || len(Differences(to, want)) != len(left) {
				t.Errorf("%s, up to %d: mended %v, left %v", tc.name, upTo, mended, left)
			}
		}
	}
	if got := Differences(want, want); len(got) > 0 {
		t.Errorf("of itself: %v", got)
	}
}

// A bucket may have more keys than are wanted, or take any; what nobody says stays.
func TestDifferencesOfBuckets(t *testing.T) {
	every, a, ab, bc := bucketConfig("x", 0, 1, nil), bucketConfig("x", 0, 1, []string{"a"}), bucketConfig("x", 0, 1, []string{"a", "b"}), bucketConfig("x", 0, 1, []string{"b", "c"})
	old := every
	old.AllowMsgTTL, old.SubjectDeleteMarkerTTL, old.MaxBytes, old.Discard = false, 0, -1, jetstream.DiscardNew
	for _, tc := range []struct {
		name       string
		have, want jetstream.StreamConfig
		fields     []string
		subjects   []string
	}{
		{"more keys", ab, a, nil, ab.Subjects},
		{"any key", every, a, nil, every.Subjects},
		{"others", ab, bc, []string{"subjects", "maximum bytes of a message"}, []string{"$KV.x.a", "$KV.x.b", "$KV.x.c"}},
		{"an older version's", old, every, []string{"discard policy", "lifetimes of messages allowed:", "maximum bytes"}, every.Subjects},
	} {
		to, mended, left := Mend(tc.have, tc.want, BySetup)
		var fields []string
		for _, d := range append(mended, left...) {
			fields = append(fields, d.Field)
		}
		slices.Sort(fields)
		slices.Sort(tc.fields)
		if !slices.Equal(fields, tc.fields) || !slices.Equal(to.Subjects, tc.subjects) {
			t.Errorf("%s: %v, subjects %v", tc.name, fields, to.Subjects)
		}
	}
}
