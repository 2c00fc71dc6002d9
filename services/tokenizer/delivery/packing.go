package delivery

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

// packJob is a log whose end was delivered, to become one record.
type packJob struct {
	request string
	packed  *pb.Packed // nil: it would be too large
	end     uint64
	tenant  string
	size    int64 // of the log as it is
}

// packing are the logs that wait to be packed. It costs the server the removal
// of a log's records, so one goroutine does it, behind the deliveries. A log
// that finds no room here stays as it is until it ages.
type packing struct {
	*common
	ledger Ledger
	jobs   chan packJob
}

const (
	// packQueue bounds the packed logs that wait in memory.
	packQueue = 256
	// packWithin bounds one attempt; the server may be away.
	packWithin = 5 * time.Second
)

func newPacking(c *common, l Ledger) *packing {
	return &packing{common: c, ledger: l, jobs: make(chan packJob, packQueue)}
}

func (p *packing) add(j packJob) {
	if j.packed == nil {
		return
	}
	select {
	case p.jobs <- j:
	default:
	}
}

// run packs logs until ctx ends.
func (p *packing) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-p.jobs:
			p.pack(ctx, j)
		}
	}
}

func (p *packing) pack(ctx context.Context, j packJob) {
	ctx, cancel := context.WithTimeout(ctx, packWithin)
	defer cancel()
	err := p.log.Pack(ctx, j.request, j.packed, j.end)
	switch {
	case err == nil:
		p.ledger.Kept(j.tenant, int64(proto.Size(j.packed))-j.size, time.Now())
	case !errors.Is(err, context.Canceled):
		p.d.Logger.Info("a log stays unpacked", "request", j.request, "error", err)
	}
}

// limit leaves room for several packed logs in what a full stream has for them.
func (p *packing) limit() int {
	bound := p.d.Streams.Tokens().MaxBytes
	return int(min(admission.MaxPacked, p.log.MaxRecord(), (bound-tokenlog.Writable(bound))/8))
}
