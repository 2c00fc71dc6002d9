package bus

import (
	"slices"
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
		name string
		have func(*jetstream.StreamConfig)
		cure Cure
	}{
		{"rollups denied", func(c *jetstream.StreamConfig) { c.AllowRollup = false }, ByService},
		{"younger", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, BySetup},
		{"older", func(c *jetstream.StreamConfig) { c.MaxAge = 3 * time.Hour }, ByChange},
		{"for ever", func(c *jetstream.StreamConfig) { c.MaxAge = 0 }, ByChange},
		{"smaller", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, BySetup},
		{"larger", func(c *jetstream.StreamConfig) { c.MaxBytes = 5 << 30 }, ByChange},
		{"unbounded", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, ByChange},
		{"one of each subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, BySetup},
		{"drops the oldest", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, BySetup},
		{"three copies", func(c *jetstream.StreamConfig) { c.Replicas = 3 }, ByChange},
		{"no subject", func(c *jetstream.StreamConfig) { c.Subjects = nil }, ByService},
		{"another subject", func(c *jetstream.StreamConfig) { c.Subjects = []string{"_INBOX.>"} }, ByChange},
		{"one more subject", func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "test.ask.>") }, ByChange},
		{"in memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, ByRemake},
		{"a queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, ByRemake},
		{"a copy", func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "other"} }, ByRemake},
		{"with a source", func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "other"}} }, ByChange},
		{"sent on", func(c *jetstream.StreamConfig) { c.RePublish = &jetstream.RePublish{Destination: "x"} }, ByChange},
		{"renamed", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Destination: "x"}
		}, ByChange},
	} {
		have := tokens(tc.have)
		got := differences(have, want)
		if len(got) != 1 || got[0].Cure != tc.cure || got[0].Stream != want.Name {
			t.Errorf("%s: %+v", tc.name, got)
			continue
		}
		for _, upTo := range []Cure{ByService, BySetup, ByChange} {
			to, mended, left := Mend(have, want, upTo)
			if (len(mended) == 1) != (tc.cure <= upTo) || len(mended)+len(left) != 1 || len(differences(to, want)) != len(left) {
				t.Errorf("%s, up to %d: mended %v, left %v", tc.name, upTo, mended, left)
			}
		}
	}
	rows := streamConfig(names(schemas.HopsUnacked).Hidden(), 1)
	more := rows
	more.Replicas = 3
	if got := differences(more, rows); len(got) != 1 || got[0].Cure != ByService {
		t.Errorf("three copies of rows: %+v", got)
	}
	if got := differences(want, want); len(got) > 0 {
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

// What only bounds what outsiders have a server hold is mended where that may be, and lets
// a service go on where it may not; all else does not.
func TestNeeded(t *testing.T) {
	names := names(schemas.HopsAcked)
	names.PromptBytes = 1 << 20
	want := streamConfig(names.Prompts(), 1)
	before := want
	before.MaxMsgs, before.MaxMsgSize, before.Duplicates = -1, -1, 2*time.Minute
	if left := differences(before, want); len(left) != 3 || len(needed(left)) != 0 {
		t.Errorf("of %v, %v are needed", left, needed(left))
	}
	if _, mended, left := Mend(before, want, ByService); len(mended) != 3 || len(left) != 0 {
		t.Errorf("mended %v, left %v", mended, left)
	}
	before.Subjects = want.Subjects[:1]
	if left := needed(differences(before, want)); len(left) != 1 || left[0].Field != "subjects" {
		t.Errorf("%v are needed", left)
	}
	if left := differences(want, streamConfig(schemas.Streams{Subjects: names.Subjects}.Prompts(), 1)); len(left) != 0 {
		t.Errorf("who does not know the model's size wants %v", left)
	}
}

// differences are all fields in which a stream is not what is wanted.
func differences(have, want jetstream.StreamConfig) []Difference {
	_, mended, left := Mend(have, want, ByService)
	return append(mended, left...)
}
