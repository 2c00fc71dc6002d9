package replay

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/services/switchyard/top"
)

// View is what `switchyard top` shows at one time.
type View struct {
	At   time.Duration
	Text string
}

// film keeps what top shows, at each interval until ctx ends. A look that fails is
// missing.
func (w *watcher) film(ctx context.Context, every time.Duration) {
	r := top.NewReader(w.conn.NATS(), w.conn.JetStream(), w.Streams)
	defer r.Close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before *top.Snapshot
	for {
		if now, err := r.Snapshot(ctx); err == nil {
			w.views = append(w.views, View{time.Since(w.start()), now.View(before)})
			before = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
