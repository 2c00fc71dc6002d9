package tokenlog

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// owner is an attention replica as the log sees it.
type owner struct {
	w    *Writer
	next int // index of its next token
}

// Whatever owners do, and in whatever order, a log is gapless and ends once.
func TestAnyInterleaving(t *testing.T) {
	r := newRig(t)
	requests := 0
	rapid.Check(t, func(t *rapid.T) {
		requests++
		request := fmt.Sprintf("r%d", requests)
		r.accept(request)
		owners := make([]owner, 3)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			o := &owners[rapid.IntRange(0, len(owners)-1).Draw(t, "owner")]
			switch rapid.SampledFrom([]string{"claim", "append", "append", "append", "flush", "end", "cancel"}).Draw(t, "act") {
			case "claim":
				o.claim(t, r, request)
			case "append":
				o.append(token(o.next))
				o.next++
			case "flush":
				o.flush(r)
			case "end":
				o.append(terminal("stop"))
			case "cancel":
				err := r.log.Finish(r.ctx(), request, &pb.Terminal{FinishReason: "cancelled"})
				if err != nil && !errors.Is(err, ErrFinished) {
					t.Fatal(err)
				}
			}
		}
		for i := range owners {
			owners[i].flush(r)
		}
		check(t, r.read(request))
	})
}

func (o *owner) claim(t *rapid.T, r *rig, request string) {
	w, history, err := r.log.Claim(r.ctx(), request, opening(0), WriterSettings{})
	if errors.Is(err, ErrFinished) || errors.Is(err, ErrFruitless) {
		return // the latter after eight claims in a row
	}
	if err != nil {
		t.Fatal(err)
	}
	*o = owner{w: w}
	for _, e := range history {
		if e.Record.GetToken() != nil {
			o.next++
		}
	}
}

func (o *owner) append(r *pb.Record) {
	if o.w != nil {
		_ = o.w.Append(r) // an error is one of the outcomes
	}
}

func (o *owner) flush(r *rig) {
	if o.w != nil {
		_ = o.w.Flush(r.ctx()) // an error is one of the outcomes
	}
}

func check(t *rapid.T, log []Entry) {
	next, epoch := int32(0), uint64(0)
	for i, e := range log {
		switch k := e.Record.Kind.(type) {
		case *pb.Record_Claim:
			if e.Record.Epoch != epoch+1 {
				t.Fatalf("epoch %d after %d", e.Record.Epoch, epoch)
			}
			epoch++
		case *pb.Record_Token:
			if k.Token.Index != next || e.Record.Epoch != epoch {
				t.Fatalf("log %s: token %d of epoch %d in epoch %d", kinds(log), k.Token.Index, e.Record.Epoch, epoch)
			}
			next++
		case *pb.Record_Terminal:
			if i != len(log)-1 {
				t.Fatalf("log %s goes on after its end", kinds(log))
			}
		}
	}
}
