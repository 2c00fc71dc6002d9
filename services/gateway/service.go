package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// Service is one gateway.
type Service struct {
	bare     service.Bare
	config   Config
	up       *upstream.NATS
	door     *Door
	listener net.Listener
	server   *http.Server

	certificate certificate
}

// New returns a gateway that is not started.
func New(b service.Bare, c Config) *Service {
	inject := func(ctx context.Context, h nats.Header) { telemetry.Propagator{}.Inject(ctx, h) }
	s := &Service{bare: b, config: c, listener: c.Listener, certificate: certificate{cert: c.Cert, key: c.Key}, up: upstream.New(b.Conn, b.Prefix, inject)}
	s.door = NewDoor(DoorSettings{Config: c, Upstream: s.up, Telemetry: b.Telemetry, Replica: b.ID, Logger: b.Logger})
	return s
}

// Name is the replica's id.
func (s *Service) Name() string { return s.bare.ID }

// Addr is where clients reach it, once it is started.
func (s *Service) Addr() string { return s.listener.Addr().String() }

// Start opens its port, and begins to look for models.
func (s *Service) Start(ctx context.Context) (err error) {
	if err := errors.Join(s.door.Open(), s.certificate.load()); err != nil {
		return err
	}
	if err := s.up.Open(); err != nil {
		return err
	}
	if s.listener == nil {
		if s.listener, err = Listen(ctx, s.config.Listen); err != nil {
			return err
		}
	}
	s.server = s.door.server()
	return nil
}

// mostGarbage is more than a thousand streams leave in a second.
const mostGarbage = 16 << 20

// Listen opens an address for a gateway.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for HTTP (is another process there? choose another address): %w", err)
	}
	return l, nil
}

// Ready says why no model could be asked.
func (s *Service) Ready() error { return s.door.Ready() }

// Run serves until ctx ends. What is under way then goes on: Stop waits for it.
func (s *Service) Run(ctx context.Context) error {
	served := make(chan error, 1)
	limited := limit(s.listener, s.connections(openFiles()), s.config.Cert != "")
	go func() { served <- s.serve(limited) }()
	tasks := lifecycle.Serving(ctx)
	tasks.Go(s.up.Run)
	watched := s.watches()
	tasks.Go(func(ctx context.Context) { lifecycle.FollowFiles(ctx, s.bare.Logger, watched...) })
	if s.config.Alone {
		lifecycle.BoundGarbage(mostGarbage)
	}
	return tasks.Run(func(ctx context.Context) error {
		s.bare.Logger.Info("HTTP's clients are served", "at", s.Addr(), "tls", s.config.Cert != "", "keys", s.config.Keys != "")
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return fmt.Errorf("serving HTTP: %w", err)
		}
	})
}

// connections is how many clients' connections may be open at a time: the process has others,
// too, and without a file for one it would accept no client.
func (s *Service) connections(files uint64) int {
	if most := files / 8 * 7; files > 0 && most < uint64(s.config.MaxConns) { //nolint:gosec // it is not negative
		s.bare.Logger.Warn("fewer clients may be connected than --http-max-conns says: the system lets this process open too few files (ulimit -n)", "clients", most, "files", files)
		return int(max(1, most)) //nolint:gosec // it is less than an int
	}
	return s.config.MaxConns
}

func (s *Service) serve(l net.Listener) error {
	if s.config.Cert != "" {
		s.server.TLSConfig = s.certificate.config()
		return s.server.ServeTLS(l, "", "")
	}
	return s.server.Serve(l)
}

// cutBefore is how long before the end of the time for draining answers are cut, so that
// their clients are told.
const cutBefore = time.Second

// Stop takes nothing new, waits for what is under way, and tells those that are cut why.
func (s *Service) Stop(ctx context.Context) error {
	defer s.up.Close()
	defer func() { _ = s.door.access.close() }() // every line was written
	if s.server == nil {
		if s.listener != nil {
			_ = s.listener.Close() // no client was served
		}
		return nil
	}
	s.door.drain()
	waiting := ctx
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		waiting, cancel = context.WithDeadline(ctx, end.Add(-cutBefore))
		defer cancel()
	}
	err := s.server.Shutdown(waiting)
	if err != nil && ctx.Err() == nil {
		s.door.cut()
		err = s.server.Shutdown(ctx)
	}
	_ = s.server.Close() // what does not end by itself
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("ending HTTP's connections: %w", err)
	}
	return nil
}
