package gate

import (
	"context"
	"sync"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// storesAtOnce bounds the dispatches whose rows are being stored.
const storesAtOnce = 64

// stores are dispatches whose rows go into objects: a gate waits for none of them, since that would
// hold up the rows behind it.
type stores struct {
	d      *deployment.Deployment
	places chan struct{}
	all    *sync.WaitGroup
	mu     *sync.Mutex // of said
	said   *pause.ErrorLog
}

func newStores(d *deployment.Deployment) stores {
	return stores{d: d, places: make(chan struct{}, storesAtOnce), all: &sync.WaitGroup{}, mu: &sync.Mutex{}, said: &pause.ErrorLog{}}
}

// begin stores a dispatch's rows and sends it. It waits for one of those before if there are many.
func (s stores) begin(ctx context.Context, by transfer.Transfer, to transfer.Address, d *pb.Dispatch) {
	s.places <- struct{}{}
	s.all.Go(func() {
		defer func() { <-s.places }()
		defer s.d.Conn.Recover(to.Subject)
		if err := by.Scatter(ctx, to, d); err != nil && ctx.Err() == nil { // attention issues the rows again
			s.mu.Lock()
			defer s.mu.Unlock()
			s.said.Error(s.d.Logger, "rows could be stored nowhere, nor sent", err)
		}
	})
}

// end waits for all of them.
func (s stores) end() { s.all.Wait() }
