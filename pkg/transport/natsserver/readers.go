package natsserver

import (
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/pkg/transport/credentials"
)

// A server keeps what a client has not read yet, and has one bound for all its clients: services
// need one that many producers who do not read would fill. So what waits for each tenant's
// producers is looked at here, and bounded together.

const (
	// mostWaiting is what may wait for the connections of a tenant's producers, in bytes.
	mostWaiting = 16 << 20
	// waitingPoll is how often it is looked at.
	waitingPoll = 50 * time.Millisecond
	// mostReaders bounds the connections that are looked at; those for which most waits come first.
	mostReaders = 1024
)

// readers cut producers off who do not read, and those who send or receive too much.
type readers struct {
	inner func() *server.Server
	log   *slog.Logger
	quit  chan struct{}
	once  sync.Once
	done  sync.WaitGroup

	meters map[string]*meter // by account; only run has them

	mu       sync.Mutex
	trust    *credentials.Trust
	accounts []string
}

// watchReaders begins to look after the tenants' producers, until stop.
func watchReaders(inner func() *server.Server, log *slog.Logger, t *credentials.Trust) *readers {
	r := &readers{inner: inner, log: log, quit: make(chan struct{}), meters: map[string]*meter{}}
	if log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.believe(t)
	r.done.Go(r.run)
	return r
}

func (r *readers) believe(t *credentials.Trust) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trust, r.accounts = t, t.Producers()
}

func (r *readers) stop() {
	if r != nil {
		r.once.Do(func() { close(r.quit) })
		r.done.Wait()
	}
}

func (r *readers) run() {
	tick := time.NewTicker(waitingPoll)
	defer tick.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-tick.C:
			r.look(time.Now())
		}
	}
}

func (r *readers) look(now time.Time) {
	r.mu.Lock()
	accounts := r.accounts
	r.mu.Unlock()
	got := map[string]int64{}
	for _, account := range accounts {
		all, err := r.inner().Connz(&server.ConnzOptions{Account: account, Sort: server.ByPending, Limit: mostReaders})
		if err != nil {
			continue // nobody of it has been here
		}
		for _, c := range all.Conns {
			got[account] += c.OutMsgs
		}
		for _, c := range tooSlow(all.Conns, mostWaiting) {
			r.log.Warn("a producer's connection is cut off: too much waits for those of his tenant that do not read",
				"name", c.Name, "address", c.IP, "bytes", c.Pending, "most", mostWaiting)
			_ = r.inner().DisconnectClientByID(c.Cid) // it may be gone
		}
	}
	r.count(now, accounts, got)
}

// tooSlow are those, of connections in the order of what waits for them, without which no more
// than most waits.
func tooSlow(conns []*server.ConnInfo, most int) []*server.ConnInfo {
	waiting := 0
	for _, c := range conns {
		waiting += c.Pending
	}
	for i, c := range conns {
		if waiting <= most {
			return conns[:i]
		}
		waiting -= c.Pending
	}
	return conns
}
