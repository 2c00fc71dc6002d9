package predictor

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/policy/predict"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Service is one predictor.
type Service struct {
	d        *deployment.Deployment
	config   Config
	id       string
	presence *deployment.Presence
	stop     context.CancelFunc // ends the view
	hidden   *listener
	backlog  *backlog[*nats.Msg]
	work     *worker
	every    *everyRow // nil: it sees sampled rows alone
	maps     *mapper   // nil: it gives no hints
}

// New returns a predictor that is not started.
func New(d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("predictor")
	return &Service{d: d, config: c, id: id, presence: d.NewPresence(id, "predictor"), backlog: newBacklog[*nats.Msg]()}
}

// Name returns the replica's id.
func (s *Service) Name() string { return s.id }

// Start loads what predicts, and begins to listen.
func (s *Service) Start(ctx context.Context) (err error) {
	p, err := predictors.For(s.d.Model, s.config.Weights, s.config.Distance)
	if err != nil {
		return fmt.Errorf("preparing predictions: %w", err)
	}
	if p.Method() == predict.MethodReused {
		s.d.Logger.Info("predicting with the model's own gates: there are no trained weights for it; switchyard train-predictor makes some for --weights")
	}
	s.work = newWorker(s.d, s.id, p, s.d.NewLoadOutbox(s.id, pb.LoadSource_LOAD_SOURCE_PREDICTOR))
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if _, err := s.presence.Watch(watching); err != nil {
		return err
	}
	if s.d.Streams.AllRows {
		s.every = &everyRow{d: s.d}
	}
	if s.config.Maps.Capacity > 0 {
		if err := s.startMaps(); err != nil {
			return err
		}
	}
	s.hidden = s.listener()
	if err := s.hidden.open(); err != nil {
		return err
	}
	s.presence.SetReady(true)
	return nil
}

// listener listens to copies of the rows that go to gates. Predictors of one
// distance share them. A plain subscription is nobody's consumer and acknowledges
// nothing, so that no gate waits for it and no stream keeps anything for it.
func (s *Service) listener() *listener {
	return &listener{
		conn: s.d.Conn, subjects: []string{s.d.Subjects.AnyHidden(), s.d.Subjects.AnyGate()},
		group: fmt.Sprintf("predictor-%d", s.config.Distance), handle: s.receive, budget: s.config.budget(),
	}
}

// receive is all that a message's delivery waits for.
func (s *Service) receive(m *nats.Msg) {
	if dropped := s.backlog.put(m, len(m.Data)); dropped > 0 {
		s.d.Telemetry.Metrics.PredictionsLost.Add(float64(dropped))
	}
}

// Ready reports whether rows can reach this replica.
func (s *Service) Ready() error { return s.presence.Reachable() }

// Run predicts until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tasks := lifecycle.Serving(ctx)
	tasks.Go(s.hidden.run)
	tasks.Go(s.predict)
	tasks.Go(s.work.out.Run)
	tasks.Go(s.seeAll)
	if s.maps != nil {
		tasks.Go(s.maps.run)
		tasks.Go(s.maps.to.follow)
	}
	return tasks.Run(s.presence.Announce)
}

// startMaps lets every row that comes be searched for, and remembered.
func (s *Service) startMaps() (err error) {
	if s.every == nil {
		return errors.New("--maps needs every row: give --rows-to-predictor all to attention and predictors")
	}
	s.maps, err = newMapper(s.d, s.id, s.config)
	if err != nil {
		return fmt.Errorf("preparing expert maps: %w", err)
	}
	s.every.step, s.every.rows = s.maps.announced, s.maps.passed
	return nil
}

// seeAll follows all rows until ctx ends, where they are kept for it. A stream that was made
// anew is followed from its beginning.
func (s *Service) seeAll(ctx context.Context) {
	if s.every == nil {
		return
	}
	for ctx.Err() == nil {
		if err := s.every.run(ctx); err != nil {
			s.d.Logger.Warn("rows may be missed", "error", err)
			_ = pause.For(ctx, period)
		}
		s.every.next = 0
	}
}

// predict predicts from what comes until ctx ends.
func (s *Service) predict(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.backlog.note:
		}
		for m, ok := s.backlog.take(); ok && ctx.Err() == nil; m, ok = s.backlog.take() {
			s.work.attempt(ctx, m)
		}
	}
}

// Stop ends the subscriptions; what waits is dropped.
func (s *Service) Stop(context.Context) error {
	if s.stop == nil {
		return nil
	}
	s.stop()
	if s.hidden != nil {
		s.hidden.close()
	}
	return nil
}
