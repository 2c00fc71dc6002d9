package weights

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/schemas"
)

// A push that was interrupted goes on where it was; one of a whole model sends nothing.
func TestPushGoesOn(t *testing.T) {
	r := newRig(t, "mixtral")
	ctx, stop := context.WithCancel(t.Context())
	var done int64
	err := r.store.Push(ctx, r.model.Hash, r.model.Digests(), r.contents, PushSettings{Progress: func(d, _, total int64) {
		if done = d; d > total/2 {
			stop()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := r.store.Manifest(t.Context()); !errors.Is(err, ErrNoModel) {
		t.Errorf("half a model: %v", err)
	}
	before := r.push(t)
	if before == 0 || before > done {
		t.Errorf("%d bytes were sent, and %d were there", done, before)
	}
	total := int64(0)
	for _, c := range r.contents {
		total += c.Bytes
	}
	last := r.lastSequence(t)
	if before := r.push(t); before != total || r.lastSequence(t) != last {
		t.Errorf("a whole model of %d bytes: %d were there", total, before)
	}
}

// A chunk that another push has on its way may come at any time: once it is of an earlier
// push, and each time it is of one that runs.
func TestPushBesideOthers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		times int
		want  error
	}{{"an earlier one", 1, nil}, {"one that runs", 2, ErrMeanwhile}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "mixtral-window")
			first, opened := &r.contents[0], 0
			open := first.Open
			first.Open = func() (io.ReadCloser, error) {
				in, err := open()
				if opened++; opened > tt.times {
					return in, err
				}
				return &interrupted{in, sync.OnceFunc(func() {
					if _, err := r.conn.StoreBytes(t.Context(), r.store.chunks(first.Key), []byte("late"), nil); err != nil {
						t.Error(err)
					}
				})}, err
			}
			err := r.store.Push(t.Context(), r.model.Hash, r.model.Digests(), r.contents, PushSettings{})
			if !errors.Is(err, tt.want) || opened != 2 {
				t.Errorf("%v after it was read %d times", err, opened)
			}
		})
	}
}

// interrupted calls before when it is read.
type interrupted struct {
	io.ReadCloser
	before func()
}

func (i *interrupted) Read(b []byte) (int, error) {
	i.before()
	return i.ReadCloser.Read(b)
}

func (r *rig) lastSequence(t *testing.T) uint64 {
	t.Helper()
	state, err := r.conn.State(t.Context(), r.store.stream())
	if err != nil {
		t.Fatal(err)
	}
	return state.Last
}

// What is left of other pushes goes when a push ends.
func TestPushCleansUp(t *testing.T) {
	r := newRig(t, "mixtral-window")
	r.push(t)
	stray := r.store.chunks(strings.Repeat("0", 32))
	if _, err := r.conn.StoreBytes(t.Context(), stray, []byte("left"), nil); err != nil {
		t.Fatal(err)
	}
	r.push(t)
	counts, _, err := r.conn.Subjects(t.Context(), r.store.stream(), stray)
	if err != nil || len(counts) > 0 {
		t.Errorf("%v, %v", counts, err)
	}
}

func TestPushRefusals(t *testing.T) {
	r := newRig(t, "mixtral")
	r.push(t)
	other := rigOn(t, r.conn, "qwen2_moe")
	err := other.store.Push(t.Context(), other.model.Hash, other.model.Digests(), other.contents, PushSettings{})
	if !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	if _, err := r.store.Manifest(t.Context()); err != nil {
		t.Errorf("the refused push did harm: %v", err)
	}
	changed := slices.Clone(other.contents)
	changed[0].Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
	err = New(r.conn, schemas.DefaultPrefix, "changed").Push(t.Context(), other.model.Hash, other.model.Digests(), changed, PushSettings{})
	if err == nil || !strings.Contains(err.Error(), "do not change a model that is pushed") {
		t.Error(err)
	}
}

// A manifest that nobody can use is in nobody's way.
func TestPushReplacesBadManifests(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, r *rig)
		want  error
	}{
		{"unreadable", func(t *testing.T, r *rig) { r.storeManifest(t, []byte("{}")) }, digest.ErrBadManifest},
		{"unknown", func(t *testing.T, r *rig) { r.storeInfo(t, []byte("{}")) }, digest.ErrBadManifest},
		{"missing", func(t *testing.T, r *rig) {
			r.storeManifest(t, []byte("{}"))
			key := digest.KeyOf(sha256.Sum256([]byte("{}")))
			if err := r.conn.Purge(t.Context(), r.store.stream(), r.store.chunks(key)); err != nil {
				t.Fatal(err)
			}
		}, ErrMissing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "mixtral")
			r.push(t)
			tt.spoil(t, r)
			if _, err := r.store.Manifest(t.Context()); !errors.Is(err, tt.want) {
				t.Fatal(err)
			}
			if l, err := r.store.look(t.Context()); err != nil || l.Whole {
				t.Errorf("%+v, %v", l, err)
			}
			r.push(t)
			if _, err := r.store.Manifest(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// storeManifest puts data in the manifest's place.
func (r *rig) storeManifest(t *testing.T, data []byte) {
	t.Helper()
	sum := sha256.Sum256(data)
	o := digest.Object{Name: manifestObject, Key: digest.KeyOf(sum), Bytes: int64(len(data)), Chunks: 1, Sum: sum}
	if _, err := r.conn.StoreBytes(t.Context(), r.store.chunks(o.Key), data, nil); err != nil {
		t.Fatal(err)
	}
	info, err := r.store.encodeInfo(o, len(data))
	if err != nil {
		t.Fatal(err)
	}
	r.storeInfo(t, info)
}

// storeInfo changes what the store knows of the manifest.
func (r *rig) storeInfo(t *testing.T, info []byte) {
	t.Helper()
	if _, err := r.conn.StoreBytes(t.Context(), r.store.meta(manifestObject), info, nil); err != nil {
		t.Fatal(err)
	}
}

// A full bucket is told from other failures.
func TestFull(t *testing.T) {
	r := newRig(t, "mixtral")
	_, err := r.conn.JetStream().CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: r.store.bucket, MaxBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	err = r.store.Push(t.Context(), r.model.Hash, r.model.Digests(), r.contents, PushSettings{})
	if !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}
