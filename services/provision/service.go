// Package provision makes the streams that models need, as the one user with that right, and
// makes lost ones again.
package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

const (
	// lookEvery is how often somebody looks whether a stream is lost; after a look
	// without an answer, and when there is a connection again, it is sooner.
	lookEvery = 500 * time.Millisecond
	lookSoon  = 100 * time.Millisecond
	// againWithin bounds one attempt at making lost streams again.
	againWithin = 10 * time.Second
	// silentFor is how long no look may have an answer before that is worth a word.
	silentFor = 3 * time.Second
)

// Settings are what a Service works with.
type Settings struct {
	// Connect connects as the user who makes streams. The Service closes it.
	Connect func(context.Context) (*bus.Conn, error)
	// Find returns the models whose streams it makes, and may wait for them.
	Find func(context.Context, *bus.Conn) ([]bus.Model, error)
	// How they are made at the start.
	How bus.Provision
	// Told hears what became of the streams at the start; nil: nobody does.
	Told   func([]bus.Provided)
	Logger *slog.Logger
}

// Make makes the streams of all models, or none where there is no room for all. Who has those of
// tensors remade is rid of those that the models' hops do not take.
func Make(ctx context.Context, conn *bus.Conn, how bus.Provision, models ...bus.Model) ([]bus.Provided, error) {
	var gone []bus.Provided
	if slices.Contains(how.Remake, bus.Tensors) {
		var err error
		if gone, err = conn.Discard(ctx, unused(models)...); err != nil {
			return nil, err
		}
	}
	all, err := conn.Provide(ctx, how, wanted(models)...)
	if err != nil {
		return nil, conn.NoRoom(ctx, err, models...)
	}
	return append(all, gone...), nil
}

func unused(models []bus.Model) (names []string) {
	for _, m := range models {
		names = append(names, m.Streams.Unused(m.MoELayers)...)
	}
	return names
}

func wanted(models []bus.Model) (want []jetstream.StreamConfig) {
	for _, m := range models {
		want = append(want, deployment.Wanted(m.Streams, m.MoELayers)...)
	}
	return want
}

// Service makes streams when it starts, and while it runs those that are lost. Several may
// run at a time: what one of them has made the others find.
type Service struct {
	s    Settings
	said pause.ErrorLog // of Run alone

	mu     sync.Mutex
	conn   *bus.Conn
	want   []jetstream.StreamConfig // of Start
	made   bool
	looked time.Time // when a look had its last answer
	wrong  error     // what keeps streams from being there; nil: nothing
}

// New returns a service that has no connection yet.
func New(s Settings) *Service { return &Service{s: s} }

// Name is for errors and readiness.
func (s *Service) Name() string { return "setup" }

// Start makes the streams, unless it has done so.
func (s *Service) Start(ctx context.Context) error {
	if s.connection() == nil {
		conn, err := s.s.Connect(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.conn = conn
		s.mu.Unlock()
	}
	s.mu.Lock()
	made := s.made
	s.mu.Unlock()
	if made {
		return nil
	}
	models, err := s.s.Find(ctx, s.connection())
	if err != nil {
		return err
	}
	all, err := Make(ctx, s.connection(), s.s.How, models...)
	if err != nil {
		return err
	}
	if s.s.Told != nil {
		s.s.Told(all)
	}
	s.mu.Lock()
	s.want, s.made, s.looked = wanted(models), true, time.Now()
	s.mu.Unlock()
	return nil
}

// Run makes lost streams again until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	conn := s.connection()
	for {
		back := conn.Reconnection()
		wait := lookEvery
		if !s.look(ctx) {
			wait = lookSoon
		}
		select {
		case <-ctx.Done():
			return nil
		case <-conn.Closed():
			return conn.Live()
		case <-back:
		case <-time.After(wait):
		}
	}
}

// look looks once, and reports whether all is there.
func (s *Service) look(ctx context.Context) bool {
	lost, err := s.connection().Lost(ctx, s.want...)
	if len(lost) > 0 {
		err = s.again(ctx, lost)
	}
	if ctx.Err() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong = err; err != nil {
		return false
	}
	s.looked = time.Now()
	return true
}

func (s *Service) again(ctx context.Context, lost []jetstream.StreamConfig) error {
	names := make([]string, len(lost))
	for i, w := range lost {
		names[i] = w.Name
	}
	within, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	if _, err := s.connection().Provide(within, bus.Provision{Replicas: s.s.How.Replicas}, lost...); err != nil {
		if ctx.Err() == nil {
			s.said.Error(s.s.Logger, "lost streams cannot be made again", err)
		}
		return err
	}
	s.said = pause.ErrorLog{}
	s.s.Logger.Warn("streams were lost, and are made again", "count", len(names), "streams", strings.Join(names, ", "))
	return nil
}

// Stop closes the connection.
func (s *Service) Stop(context.Context) error {
	if conn := s.connection(); conn != nil {
		conn.Close()
	}
	return nil
}

// Ready says which streams are not there, or that nobody can tell.
func (s *Service) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch silent := time.Since(s.looked); {
	case s.conn == nil:
		return errors.New("no NATS server has answered yet")
	case !s.made:
		return errors.New("streams and buckets are not all there yet")
	case s.conn.Ready() != nil:
		return s.conn.Ready()
	case silent < silentFor:
		return nil
	case s.wrong != nil:
		return fmt.Errorf("streams are not there for %v: %w", silent.Round(100*time.Millisecond), s.wrong)
	default:
		return fmt.Errorf("setup has not looked at the streams for %v", silent.Round(100*time.Millisecond))
	}
}

// Live says what only a new process can help.
func (s *Service) Live() error {
	if conn := s.connection(); conn != nil {
		return conn.Live()
	}
	return nil
}

func (s *Service) connection() *bus.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}
