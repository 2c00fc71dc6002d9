package overload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// request is one that is sent.
type request struct {
	tenant int
	prompt int
	// obeys says that it comes again when it is told to, once.
	obeys bool
}

// big is the tenant whose requests fill the context.
const big = tenants

func small(tenant int) request { return request{tenant, promptTokens, rand.IntN(20) == 0} }
func whole() request           { return request{big, wholePrompt, false} }

func isHot(o *outcome) bool   { return o.tenant == 0 }
func isBig(o *outcome) bool   { return o.tenant == big }
func isOther(o *outcome) bool { return !isHot(o) && !isBig(o) }

// outcome is what became of a request.
type outcome struct {
	request
	tokens      int
	waited      time.Duration // from its acceptance to its turn, as its timings say
	first, tpot time.Duration // zero: none came
	// refused says that it was turned away at first, and after when to come again.
	refused    bool
	after      time.Duration
	again      bool // it came again
	overloaded bool // in the end
	failure    error
}

// full reports whether it has its whole answer.
func (o *outcome) full() bool { return o.failure == nil && !o.overloaded }

// send sends a request, and once more if it obeys, and notes what becomes of it.
func (y *yard) send(r *report, q request) {
	o := &outcome{request: q}
	prompt := y.prompt(q)
	err := y.stream(prompt, o)
	var told *client.Error
	if errors.As(err, &told) && told.Code == client.CodeOverloaded {
		o.refused, o.after = true, told.RetryAfter
		if q.obeys {
			o.again = true
			time.Sleep(o.after)
			err = y.stream(prompt, o)
		}
	}
	o.overloaded = errors.As(err, &told) && told.Code == client.CodeOverloaded
	if err != nil && !o.overloaded {
		o.failure = err
	}
	r.note(o)
}

func (y *yard) prompt(q request) *pb.Prompt {
	ids, most := make([]uint32, q.prompt), int32(answerTokens)
	for i := range ids {
		ids[i] = rand.Uint32N(8000)
	}
	return &pb.Prompt{RequestId: fmt.Sprintf("o%016x", rand.Uint64()), InputIds: ids, MaxTokens: &most, IgnoreEos: true}
}

// stream sends a prompt and reads its answer.
func (y *yard) stream(p *pb.Prompt, o *outcome) error {
	ctx, cancel := context.WithTimeout(y.t.Context(), lostAfter)
	defer cancel()
	begun, last := time.Now(), time.Time{}
	c := client.New(y.ncs[o.tenant], client.Settings{Tenant: fmt.Sprint("tenant-", o.tenant)})
	s, err := c.Prompt(ctx, p)
	if err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	defer s.Close()
	for chunk, err := range s.Chunks() {
		if err != nil {
			return fmt.Errorf("after %d tokens and %v: %w", o.tokens, time.Since(begun).Round(time.Second), err)
		}
		if n := len(chunk.TokenIds); n > 0 {
			if o.first == 0 {
				o.first = time.Since(begun)
			}
			o.tokens, last = o.tokens+n, time.Now()
		}
		if failed := client.Failure(chunk); failed != nil {
			return failed
		}
		o.waited = time.Duration(chunk.GetTimings().GetQueue() * float64(time.Second))
	}
	if o.tokens != answerTokens {
		return fmt.Errorf("a clean end after %d of %d tokens", o.tokens, answerTokens)
	}
	o.tpot = (last.Sub(begun) - o.first) / (answerTokens - 1)
	return nil
}
