package tokenizer

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/process/pause"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
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
type packing chan packJob

const (
	// packQueue bounds the packed logs that wait in memory.
	packQueue = 256
	// packWithin bounds one attempt; the server may be away.
	packWithin = 5 * time.Second
)

func newPacking() packing { return make(packing, packQueue) }

func (p packing) add(j packJob) {
	if j.packed == nil {
		return
	}
	select {
	case p <- j:
	default:
	}
}

// pack packs logs until ctx ends.
func (s *Service) pack(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-s.packing:
			s.packOne(ctx, j)
		}
	}
}

func (s *Service) packOne(ctx context.Context, j packJob) {
	ctx, cancel := context.WithTimeout(ctx, packWithin)
	defer cancel()
	err := s.log.Pack(ctx, j.request, j.packed, j.end)
	switch {
	case err == nil:
		s.admission.Kept(j.tenant, int64(proto.Size(j.packed))-j.size, time.Now())
	case !errors.Is(err, context.Canceled):
		s.d.Logger.Info("a log stays unpacked", "request", j.request, "error", err)
	}
}

// packLimit leaves room for several packed logs in what a full stream has for them.
func (s *Service) packLimit() int {
	bound := s.d.Streams.Tokens().MaxBytes
	return int(min(admission.MaxPacked, s.log.MaxRecord(), (bound-tokenlog.Writable(bound))/8))
}

// endBroken ends a request whose log nobody can go on with. It tries until ctx
// ends: the stream may be full.
func (s *Service) endBroken(ctx context.Context, request string, opened *pb.Accept, why *edge.Error) {
	end := &pb.Terminal{FinishReason: "error", Error: edge.Proto(why)}
	for {
		err := s.log.End(ctx, request, opened, end)
		switch {
		case err == nil, errors.Is(err, tokenlog.ErrFinished), errors.Is(err, tokenlog.ErrForeign), ctx.Err() != nil:
			return
		case !bus.IsFull(err):
			s.d.Logger.Warn("ending a request whose log is not whole; trying again", "request", request, "error", err)
		}
		if pause.For(ctx, time.Second) != nil {
			return
		}
	}
}
