package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

const (
	// maxTenantEnding bounds the requests that tenants want to end and of which it is looked up
	// whose they are, those of one tenant to half of them.
	maxTenantEnding = 10_000
	// forgetWithin bounds what it takes to end a request and to erase its log.
	forgetWithin = 10 * time.Second
)

// onCancelledOf remembers what a tenant has cancelled; every replica hears it.
func (s *Endings) onCancelledOf(m *nats.Msg) {
	tenant, request := s.d.Subjects.TenantOf(m.Subject), schemas.LastToken(m.Subject)
	if s.isSignal(m) && schemas.CheckRequestID(request) == nil {
		s.cancelled.add(ofTenant(tenant, request), time.Now())
	}
}

// ofTenant names a tenant's request; ids have no dot.
func ofTenant(tenant, request string) string { return tenant + "." + request }

// CancelOf ends a tenant's request as its producer would, and none of another tenant. All replicas
// remember one that is not known yet.
func (s *Endings) CancelOf(tenant, request string) {
	s.signal(s.d.Subjects.CancelledOf(tenant, request))
	s.whenOwned(tenant, request, "cancel", 0, func(ctx context.Context) {
		if s.cancelOwned(ctx, tenant, request) != nil { // its log may be opened just now, by who has not heard of it
			s.whenOwned(tenant, request, "cancel", cancelGrace, func(ctx context.Context) { _ = s.cancelOwned(ctx, tenant, request) })
		}
	})
}

// whenOwned does soon what takes a look at whose a request is, and counts what there is no room for.
func (s *Endings) whenOwned(tenant, request, what string, after time.Duration, do func(context.Context)) bool {
	if !s.shares.Take(tenant, 1) {
		s.metrics.Refused.Inc()
		return false
	}
	noted := s.owned.note(ofTenant(tenant, request)+" "+what, after, func(ctx context.Context) {
		defer s.shares.Give(tenant, 1)
		do(ctx)
	})
	if !noted {
		s.shares.Give(tenant, 1)
	}
	return noted
}

// cancelOwned cancels a request if it is known and the tenant's.
func (s *Endings) cancelOwned(ctx context.Context, tenant, request string) error {
	if err := s.checkOwner(ctx, tenant, request); err != nil {
		return err
	}
	s.Cancel(request)
	return nil
}

// checkOwner says ErrUnknown of a request that is not known, or another tenant's.
func (s *Endings) checkOwner(ctx context.Context, tenant, request string) error {
	opened, err := s.log.Opening(ctx, request)
	if err == nil && schemas.FlowOf(opened).Tenant != tenant {
		s.metrics.Refused.Inc()
		err = tokenlog.ErrUnknown
	}
	return err //nolint:wrapcheck // callers look for what it is
}

// OnForget ends a tenant's request, erases its log, and says so. To other tenants it is unknown.
func (s *Endings) OnForget(m *nats.Msg) {
	to := Destination{Subject: m.Reply, Origin: Inbox, Encoding: pb.Encoding_ENCODING_PROTOBUF, From: Beginning(0)}
	tenant, request := s.d.Subjects.TenantOf(m.Subject), schemas.LastToken(m.Subject)
	if !s.sender.Answerable(to) {
		return
	}
	err := admission.BadRequest(schemas.CheckRequestID(request))
	if err == nil {
		noted := s.whenOwned(tenant, request, "forget", 0, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, forgetWithin)
			defer cancel()
			s.forgotten(to, request, s.forget(ctx, tenant, request))
		})
		if noted {
			return
		}
		err = admission.RetryLater(edge.Errorf(edge.Overloaded, "request_id %q is being ended already, or too many others are", request))
	}
	s.sender.Tell(to, edge.Refusal(admission.UsableID(request), err))
}

// forgotten says what came of forgetting.
func (s *Endings) forgotten(to Destination, request string, err error) {
	var typed *edge.Error
	switch {
	case err == nil:
		s.sender.Tell(to, &pb.Chunk{RequestId: request, FinishReason: "cancelled"})
		return
	case errors.Is(err, tokenlog.ErrUnknown):
		err = unknown(s.common, request)
	case !errors.As(err, &typed):
		s.d.Logger.Warn("forgetting a request", "request", request, "error", err)
		err = edge.Errorf(edge.Internal, "request_id %q could not be erased; ask again", request)
	}
	s.sender.Tell(to, edge.Refusal(request, err))
}

// unknown is what a reader is told of a request that is not there, or not for him.
func unknown(c *common, request string) *edge.Error {
	return edge.Errorf(edge.BadRequest, "request_id %q is unknown; requests are kept for %v (--log-age)", request, c.d.Streams.Tokens().MaxAge)
}

// forget ends a tenant's request and erases its log.
func (s *Endings) forget(ctx context.Context, tenant, request string) error {
	if err := s.checkOwner(ctx, tenant, request); err != nil {
		return err
	}
	s.Cancel(request)
	if err := s.log.Finish(ctx, request, &pb.Terminal{FinishReason: "cancelled"}); err != nil && !errors.Is(err, tokenlog.ErrFinished) {
		return err //nolint:wrapcheck // as checkOwner
	}
	gone := edge.Errorf(edge.BadRequest, "request_id %q is unknown: it was deleted", request)
	return s.log.Erase(ctx, request, &pb.Terminal{FinishReason: "error", Error: edge.Proto(gone)}) //nolint:wrapcheck // as above
}
