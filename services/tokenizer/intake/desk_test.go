package intake

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What takes much memory waits for its turn, small things do not, and what is larger than
// the bound is alone.
func TestDecodingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(string) uint32 { return 1 })
		leave, err := d.enter(t.Context(), schemas.Flow{}, 10*decodingBytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.enter(t.Context(), schemas.Flow{}, smallDecoding); err != nil {
			t.Error(err)
		}
		entered := make(chan struct{})
		go func() {
			if out, err := d.enter(t.Context(), schemas.Flow{}, decodingBytes/2); err == nil {
				out()
			}
			close(entered)
		}()
		synctest.Wait()
		select {
		case <-entered:
			t.Error("a large one is read beside one that takes all there is")
		default:
		}
		leave()
		<-entered
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		again, _ := d.enter(t.Context(), schemas.Flow{}, decodingBytes)
		defer func() { again() }()
		if _, err := d.enter(ended, schemas.Flow{}, decodingBytes); err == nil {
			t.Error("waited beyond its context")
		}
	})
}

// JSON for the chat template takes more than text, text more than ids.
func TestTokenizedBytes(t *testing.T) {
	text, content := "12345678", "12345678"
	for name, tc := range map[string]struct {
		p    *pb.Prompt
		want int64
	}{
		"ids":      {&pb.Prompt{InputIds: make([]uint32, 100)}, 0},
		"text":     {&pb.Prompt{Text: text}, 8 * perTextByte},
		"messages": {&pb.Prompt{Messages: []*pb.ChatMessage{{Content: &content, ReasoningContent: text, ToolCalls: text}}}, 16*perTextByte + 8*perValueByte},
		"tools":    {&pb.Prompt{Tools: text, ChatTemplateKwargs: text}, 16 * perValueByte},
	} {
		if got := tokenizedBytes(tc.p); got != tc.want {
			t.Errorf("%s: %d bytes, want %d", name, got, tc.want)
		}
	}
}

// stay has so many visits of a tenant that last so long, and says how many had their turn.
func (d desk) stay(ctx context.Context, all *sync.WaitGroup, tenant string, n int, bytes int64, lasts time.Duration) *atomic.Int32 {
	var had atomic.Int32
	for range n {
		all.Go(func() {
			leave, err := d.enter(ctx, schemas.Flow{Tenant: tenant, Class: schemas.ClassNormal}, bytes)
			if err != nil {
				return
			}
			time.Sleep(lasts) // of a bubble's clock: it is as if it computed
			had.Add(1)
			leave()
		})
	}
	return &had
}

// What one tenant has tokenized, however much and however long it takes, leaves others a turn at once.
func TestOthersHaveATurn(t *testing.T) {
	for name, tc := range map[string]struct {
		many, one int64 // bytes
	}{"small": {1, 1}, "large": {decodingBytes / 2, 1}, "large, beside a large one": {decodingBytes / 8, decodingBytes / 2}, "schemas of a second": {100, 100}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			d := newDesk(func(string) uint32 { return 1 })
			d.stay(ctx, &all, "many", 1000, tc.many, time.Second)
			synctest.Wait()
			begun := time.Now()
			one := d.stay(ctx, &all, "one", 1, tc.one, time.Millisecond)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if one.Load() != 1 {
				t.Errorf("%s: it waits for %v and longer", name, time.Since(begun))
			}
			cancel()
			all.Wait()
			if d.turns.free != d.turns.most || d.room.free != d.room.most || len(d.turns.own)+len(d.room.own) > 0 {
				t.Errorf("%s: %d turns and %d bytes are free, %d and %d tenants are known", name, d.turns.free, d.room.free, len(d.turns.own), len(d.room.own))
			}
		})
	}
}

// Time at the desk is shared by those who want more than there is, however long their visits last, and a weight
// brings more of it; and a tenant alone has as much as the machine has processors.
func TestDeskByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		weights := map[string]uint32{"a": 1, "b": 1, "c": 1, "d": 6}
		d := newDesk(func(tenant string) uint32 { return weights[tenant] })
		d.turns = newLine(2)
		var all sync.WaitGroup
		had := map[string]*atomic.Int32{}
		for tenant := range weights {
			lasts, n := 100*time.Millisecond, 9000
			if tenant == "b" { // few long ones
				lasts = time.Second
			}
			had[tenant] = d.stay(ctx, &all, tenant, n, 1, lasts)
		}
		time.Sleep(900 * time.Second)
		cancel()
		all.Wait()
		seconds := map[string]float64{}
		for tenant, n := range had {
			if seconds[tenant] = float64(n.Load()) / 10; tenant == "b" {
				seconds[tenant] *= 10
			}
		}
		// Of two turns none has more than one at a time: d has most of it, and the others share the rest.
		for tenant, got := range seconds {
			if least, most := 270.0, 400.0; tenant != "d" && (got < least || got > most || seconds["d"] < 1.8*got) {
				t.Errorf("%s had %.0f s: %v", tenant, got, seconds)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(string) uint32 { return 0 })
		var all sync.WaitGroup
		begun := time.Now()
		d.stay(t.Context(), &all, "alone", 10*runtime.GOMAXPROCS(0), 1, time.Second)
		if all.Wait(); time.Since(begun) != 10*time.Second {
			t.Errorf("it takes %v", time.Since(begun))
		}
	})
}

// Who does not wait any more leaves the others their turns.
func TestLeftVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(string) uint32 { return 1 })
		d.turns = newLine(2)
		var all sync.WaitGroup
		stays, end := context.WithCancel(t.Context())
		d.stay(stays, &all, "many", 50, 1, time.Second)
		leaves, cancel := context.WithCancel(t.Context())
		for _, tenant := range []string{"many", "few", "other"} {
			d.stay(leaves, &all, tenant, 20, 1, time.Second)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		last := d.stay(t.Context(), &all, "last", 3, 1, time.Second)
		time.Sleep(5 * time.Second)
		if synctest.Wait(); last.Load() != 3 {
			t.Errorf("%d of 3 had a turn", last.Load())
		}
		end()
		if all.Wait(); d.turns.free != 2 || len(d.turns.own) > 0 || d.turns.queue.Len() > 0 {
			t.Errorf("%d turns are free, %d tenants are known", d.turns.free, len(d.turns.own))
		}
	})
}
