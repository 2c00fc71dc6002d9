package delivery_test

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
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
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
func watchedShard(r *rig.Rig) (delivery.OwnedShard, *watched) {
	s := r.Unstarted(r.D)
	store := &watched{LogStore: r.D.Logs}
	log := tokenlog.New(store, r.D.Streams, tokenlog.Settings{Rules: tokenlog.Rules{
		Model: r.D.Identity.Model, Vocab: r.D.Model.Spec.Vocab, Positions: r.D.Model.Spec.LongestRequest(),
	}, Writer: s.Name()})
	ctx, stop := context.WithCancel(context.WithoutCancel(r.T.Context()))
	sh := s.Delivery.OwnedShard(ctx, log, 0)
	r.T.Cleanup(func() { stop(); sh.Wait() })
	return sh, store
}

// identity is that of what a rig's replicas accept.
func identity(r *rig.Rig) *pb.Identity {
	return &pb.Identity{Version: schemas.Version, Model: r.D.Identity.Model}
}

func stored(seq uint64, record *pb.Record) tokenlog.Entry {
	return tokenlog.Entry{Record: record, Seq: seq, Size: 100, Time: time.Unix(1000, int64(seq))}
}

// Messages that are no records are passed over one by one: nothing is read for them, and
// no request is kept, whether there are logs of these names or not.
func TestUnreadableRecordsCostNothing(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	sh, store := watchedShard(r)
	accept := &pb.Accept{Identity: identity(r), MaxTokens: 9, PromptTokens: 1}
	sh.Take(r.Ctx(), "running", stored(1, &pb.Record{Kind: &pb.Record_Accept{Accept: accept}}), nil)
	for i := range 1000 {
		for _, request := range []string{"running", "ended", fmt.Sprint("never-", i)} {
			if !sh.Take(r.Ctx(), request, stored(uint64(i+2), nil), errors.New("no record")) {
				t.Fatal("it is left to the next owner")
			}
		}
	}
	if n := store.reads.Load(); n != 0 {
		t.Errorf("%d logs were read", n)
	}
	if kept := sh.Written(); len(kept) != 1 || kept["running"] != 100 {
		t.Errorf("%v are kept, want the one, with its own record's bytes", kept)
	}
}

// What comes behind the end of a request, or to a log without a beginning, is read for
// once, and kept for nobody.
func TestLateRecordsAreReadForOnce(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*rig.Rig){
		"ended": func(r *rig.Rig) {
			if _, err := r.Log.Accept(r.Ctx(), "one", &pb.Accept{Identity: &pb.Identity{Version: schemas.Version, Model: r.D.Identity.Model}, MaxTokens: 9, PromptTokens: 1}); err != nil {
				r.T.Fatal(err)
			}
			r.Append(r.Claim("one"), rig.Ending("cancelled"))
		},
		"no beginning": func(*rig.Rig) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, 0)
			prepare(r)
			sh, store := watchedShard(r)
			intoLog(r, "one", []byte("at the end of what lies there"), nil)
			for i := range 100 {
				sh.Take(r.Ctx(), "one", stored(uint64(1000+i), &pb.Record{Format: schemas.RecordFormat, Epoch: 7, Kind: rig.Token(3).Kind}), nil)
				if i == 0 {
					sh.Wait() // what ends a log without a beginning reads it, too
					store.reads.Store(1)
				}
			}
			if n := store.reads.Load(); n != 1 || len(sh.Written()) != 0 {
				t.Errorf("logs were read %d times, %d requests are kept", n, len(sh.Written()))
			}
		})
	}
}

// A request whose records have aged is let go: nobody goes on with it.
func TestAgedRequestsAreLetGo(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	sh, _ := watchedShard(r)
	accept := &pb.Record{Kind: &pb.Record_Accept{Accept: &pb.Accept{Identity: identity(r), MaxTokens: 9, PromptTokens: 1, LogBytes: 5000}}}
	old, young := stored(1, accept), stored(2, accept)
	young.Time = old.Time.Add(r.D.Streams.Tokens().MaxAge - time.Second)
	sh.Take(r.Ctx(), "old", old, nil)
	sh.Take(r.Ctx(), "young", young, nil)
	young.Time = young.Time.Add(delivery.SweepEvery)
	sh.Take(r.Ctx(), "noise", young, errors.New("no record"))
	kept := sh.Written()
	_, aged := kept["old"]
	if _, fresh := kept["young"]; aged || !fresh {
		t.Errorf("%v are kept", kept)
	}
	if n := sh.Reserved(); n != 4900 {
		t.Errorf("%d bytes are reserved, want those of one request", n)
	}
}
