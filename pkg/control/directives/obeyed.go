package directives

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Obeyed is the newest directive that an attention replica knows, and how far it still holds.
type Obeyed struct {
	// Illegal hears of a directive whose version does not go up.
	Illegal func(error)

	used  atomic.Pointer[pb.Directive]
	moved atomic.Int64 // when the controller's lease was renewed last, in nanoseconds since begun; 0: never
	begun time.Time

	mu sync.Mutex // of Put alone
}

// NewObeyed knows no directive.
func NewObeyed(illegal func(error)) *Obeyed { return &Obeyed{Illegal: illegal, begun: time.Now()} }

// Follow keeps up with the bucket until ctx ends. In one that was made anew, versions begin again.
func (o *Obeyed) Follow(ctx context.Context, b Bucket) {
	b.Follow(ctx, func(w *Written, s *Wanted) {
		if w != nil {
			o.Put(*w)
		} else if s == nil {
			o.used.Store(nil)
		}
	})
}

// Put takes in what lies in the bucket. What is no directive, or an earlier one, leaves the one
// before in use.
func (o *Obeyed) Put(w Written) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.used.Load()
	switch d := w.Directive; {
	case d == nil:
	case before != nil && d.Version <= before.Version && d.WriterEpoch <= before.WriterEpoch:
		o.Illegal(stale(before.Version, d.Version))
	default:
		o.used.Store(d)
	}
}

// Newest is the directive that holds, or held before thresholds rose without a controller; nil: there
// is none.
func (o *Obeyed) Newest() *pb.Directive { return o.used.Load() }

// Renewed says that a controller has renewed its lease.
func (o *Obeyed) Renewed() { o.moved.Store(max(1, int64(time.Since(o.begun)))) }

// Now is the directive with the thresholds that hold at this moment; nil: all rows have their
// own experts.
func (o *Obeyed) Now() (d *pb.Directive, prefill, decode uint32) {
	if d = o.used.Load(); d == nil {
		return nil, brownout.One, brownout.One
	}
	rise := o.rise()
	prefill, decode = min(d.PrefillMillionths+rise, brownout.One), min(d.DecodeMillionths+rise, brownout.One)
	if prefill == brownout.One && decode == brownout.One {
		d = nil
	}
	return d, prefill, decode
}

// rise is what thresholds have risen by since the controller went silent.
func (o *Obeyed) rise() uint32 {
	moved := o.moved.Load()
	if moved == 0 {
		return brownout.One
	}
	silent := time.Since(o.begun) - time.Duration(moved) - lease.TTL
	if silent <= 0 {
		return 0
	}
	idle := brownout.Paper(1)
	windows := min(int(silent.Seconds()/idle.Window), brownout.One/idle.Increment)
	return uint32(windows * idle.Increment)
}
