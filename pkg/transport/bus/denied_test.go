package bus

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
)

func violation(what, subject string) error {
	return fmt.Errorf("%w: Permissions Violation for %s to %q", nats.ErrPermissionViolation, what, subject)
}

// One thing that a user may not do is told at most every ten seconds, whatever else he may not.
func TestDenialsTold(t *testing.T) {
	now, d := time.Now(), complaints{}
	for i, step := range []struct {
		after time.Duration
		err   error
		tell  bool
	}{
		{0, violation("Publish", "a"), true},
		{time.Millisecond, violation("Publish", "a"), false},
		{time.Millisecond, violation("Subscription", "a"), true},
		{tellAgain - 3*time.Millisecond, violation("Publish", "a"), false},
		{time.Millisecond, violation("Publish", "a"), true},
		{time.Millisecond, violation("Publish", "a"), false},
	} {
		now = now.Add(step.after)
		if tell := d.add(step.err, now); tell != step.tell {
			t.Errorf("step %d, %v: told %v", i, step.err, tell)
		}
	}
	for i := range 3 * mostComplaints {
		d.add(violation("Publish", fmt.Sprint(i)), now)
	}
	if len(d.all) > mostComplaints {
		t.Errorf("%d are remembered", len(d.all))
	}
}

func TestDenialsOf(t *testing.T) {
	now, d := time.Now(), complaints{}
	d.add(violation("Publish", "here.a"), now)
	for _, tc := range []struct {
		name     string
		from     time.Time
		subjects []string
		want     bool
	}{
		{"it", now, []string{"here.a"}, true},
		{"one of several", time.Time{}, []string{"here.b", "here.a"}, true},
		{"before", now.Add(1), []string{"here.a"}, false},
		{"another", now, []string{"here"}, false},
		{"none", now, nil, false},
	} {
		if err := d.of(tc.from, tc.subjects...); (err != nil) != tc.want || tc.want && !IsDenied(err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if d.forget(); d.of(now, "here.a") != nil {
		t.Error("it is of the connection before")
	}
}

// A write that the server does not take fails, and is told once.
func TestStoreRefused(t *testing.T) {
	r := newRig(t)
	var log bytes.Buffer
	r.conn.log = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := r.conn.js.CreateKeyValue(r.ctx(), jetstream.KeyValueConfig{Bucket: "small", MaxValueSize: 8}); err != nil {
		t.Fatal(err)
	}
	kv, err := r.conn.EnsureBucket(r.ctx(), 1, "small", 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := AsBucket(kv)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := b.Store(r.ctx(), "k", make([]byte, 9)); !Lasts(err) {
			t.Errorf("got %v", err)
		}
	}
	if told := strings.Count(log.String(), "a bucket does not take a key"); told != 1 {
		t.Errorf("told %d times: %s", told, log.String())
	}
}

// A write that the user has no right to fails, and others wait for their turn.
func TestStoreDenied(t *testing.T) {
	t.Parallel()
	c := denied(t, "$KV.b.mine")
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	kv, err := c.EnsureBucket(ctx, 1, "b", 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := AsBucket(kv)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Store(ctx, "mine", []byte("x")); !IsDenied(err) || ctx.Err() != nil {
		t.Errorf("without the right: %v", err)
	}
	if err := b.DeniedKeys("mine", ">"); !IsDenied(err) {
		t.Errorf("denied: %v", err)
	}
	if _, err := b.Store(ctx, "other", []byte("x")); err != nil || b.DeniedKeys("other", ">") != nil {
		t.Errorf("with the right: %v, denied %v", err, b.DeniedKeys("other", ">"))
	}
}
