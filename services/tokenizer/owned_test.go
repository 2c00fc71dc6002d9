package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// watched counts the reads of a store of logs.
type watched struct {
	bus.LogStore
	reads atomic.Int64
}

func (w *watched) Last(ctx context.Context, stream, subject string) (bus.Stored, error) {
	w.reads.Add(1)
	return w.LogStore.Last(ctx, stream, subject) //nolint:wrapcheck // it stands before another one
}

// watchedShard is a shard of a replica that does not run, whose reads are counted.
func (r *rig) watchedShard() (*ownedShard, *watched) {
	s := New(r.d, Config{MaxQueued: DefaultMaxQueued})
	r.t.Cleanup(s.stopTasks(r.t.Context()))
	store := &watched{LogStore: r.d.Logs}
	s.log = tokenlog.New(store, r.d.Streams, tokenlog.Settings{Rules: tokenlog.Rules{
		Model: r.d.Identity.Model, Vocab: r.d.Model.Spec.Vocab, Positions: r.d.Model.Spec.LongestRequest(),
	}, Writer: s.id})
	return &ownedShard{s: s, requests: map[string]*served{}}, store
}

// stopTasks gives a replica that was not started what its tasks need.
func (s *Service) stopTasks(ctx context.Context) (stop func()) {
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return func() { s.stop(); s.tasks.Wait() }
}

func stored(seq uint64, record *pb.Record) tokenlog.Entry {
	return tokenlog.Entry{Record: record, Seq: seq, Size: 100, Time: time.Unix(1000, int64(seq))}
}

// Messages that are no records are passed over one by one: nothing is read for them, and
// no request is kept, whether there are logs of these names or not.
func TestUnreadableRecordsCostNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	sh, store := r.watchedShard()
	accept := &pb.Accept{Identity: sh.s.identity(), MaxTokens: 9, PromptTokens: 1}
	sh.take(r.ctx(), "running", stored(1, &pb.Record{Kind: &pb.Record_Accept{Accept: accept}}), nil)
	for i := range 1000 {
		for _, request := range []string{"running", "ended", fmt.Sprint("never-", i)} {
			if !sh.take(r.ctx(), request, stored(uint64(i+2), nil), errors.New("no record")) {
				t.Fatal("it is left to the next owner")
			}
		}
	}
	if n := store.reads.Load(); n != 0 {
		t.Errorf("%d logs were read", n)
	}
	if len(sh.requests) != 1 || sh.requests["running"].written != 100 {
		t.Errorf("%d requests are kept, want the one, with its own record's bytes: %+v", len(sh.requests), sh.requests["running"])
	}
}

// What comes behind the end of a request, or to a log without a beginning, is read for
// once, and kept for nobody.
func TestLateRecordsAreReadForOnce(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*rig){
		"ended": func(r *rig) {
			if _, err := r.log.Accept(r.ctx(), "one", &pb.Accept{Identity: &pb.Identity{Version: schemas.Version, Model: r.d.Identity.Model}, MaxTokens: 9, PromptTokens: 1}); err != nil {
				r.t.Fatal(err)
			}
			r.append(r.claim("one"), ending("cancelled"))
		},
		"no beginning": func(*rig) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0)
			prepare(r)
			sh, store := r.watchedShard()
			r.intoLog("one", []byte("at the end of what lies there"), nil)
			for i := range 100 {
				sh.take(r.ctx(), "one", stored(uint64(1000+i), &pb.Record{Format: schemas.RecordFormat, Epoch: 7, Kind: token(3).Kind}), nil)
				if i == 0 {
					sh.s.tasks.Wait() // what ends a log without a beginning reads it, too
					store.reads.Store(1)
				}
			}
			if n := store.reads.Load(); n != 1 || len(sh.requests) != 0 {
				t.Errorf("logs were read %d times, %d requests are kept", n, len(sh.requests))
			}
		})
	}
}

// A request whose records have aged is let go: nobody goes on with it.
func TestAgedRequestsAreLetGo(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	sh, _ := r.watchedShard()
	accept := &pb.Record{Kind: &pb.Record_Accept{Accept: &pb.Accept{Identity: sh.s.identity(), MaxTokens: 9, PromptTokens: 1, LogBytes: 5000}}}
	old, young := stored(1, accept), stored(2, accept)
	young.Time = old.Time.Add(r.d.Streams.Tokens().MaxAge - time.Second)
	sh.take(r.ctx(), "old", old, nil)
	sh.take(r.ctx(), "young", young, nil)
	young.Time = young.Time.Add(sweepEvery)
	sh.take(r.ctx(), "noise", young, errors.New("no record"))
	if sh.requests["old"] != nil || sh.requests["young"] == nil {
		t.Errorf("%d requests are kept", len(sh.requests))
	}
	if n := sh.s.reservations.Announced() - sh.s.reservations.Written(); n != 4900 {
		t.Errorf("%d bytes are reserved, want those of one request", n)
	}
}

// Messages in the stream of sequences that no tokenizer has stored refuse nobody.
func TestGarbageIsNoRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica(func(c *Config) { c.MaxQueued = 4 })
	r.begin("one", 3)
	r.opened("one")
	for range 20 {
		r.send(r.d.Subjects.Sequence(), "", []byte(`{"stream":"S","seq":1}`), nil)
	}
	r.eventually("the stream has them", func() bool {
		state, err := r.d.Conn.State(r.ctx(), r.d.Streams.Sequences().Name)
		return err == nil && state.Messages == 21
	})
	if n := s.probe.Sequences.Waiting(r.ctx(), time.Now().Add(time.Hour)); n != 1 { // no look is so young
		t.Errorf("%d requests wait, want 1", n)
	}
	r.begin("two", 3)
	r.opened("two")
}
