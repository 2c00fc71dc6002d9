package cluster

import (
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/services"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/gate"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// Services are the settings of those services that have any.
type Services struct {
	Attention attention.Config
	Expert    expert.Config
	Gate      gate.Config
	Tokenizer tokenizer.Config
	Predictor predictor.Config
	Scaler    scaler.Config
	// Others are those of services that a process runs alone, by name.
	Others map[string]any
	// Kafka is where samples of experts' loads go, and come from; nil: nowhere.
	Kafka *kafka.Config
	// Edge is how a tokenizer reaches producers; nil: as everything else.
	Edge *bus.Config

	linger time.Duration // of samples before they are sent; 0: the writer's own
}

// Names of the services that a token passes, in the order of starting.
var Names = catalog.StartOrder(catalog.Way)

// Loop are the services of the control loop. They start last, and nobody waits for
// them: without them tokens flow as well.
var Loop = catalog.StartOrder(catalog.Loop)

// OneEach returns one replica of each service that a token passes.
func OneEach() map[string]int {
	count := map[string]int{}
	for _, name := range Names {
		count[name] = 1
	}
	return count
}

// Set takes the settings of a service's own kind.
func (s *Services) Set(name string, own any) {
	switch c := own.(type) {
	case attention.Config:
		s.Attention = c
	case expert.Config:
		s.Expert = c
	case gate.Config:
		s.Gate = c
	case tokenizer.Config:
		s.Tokenizer = c
	case predictor.Config:
		s.Predictor = c
	case scaler.Config:
		s.Scaler = c
	default:
		if s.Others == nil {
			s.Others = map[string]any{}
		}
		s.Others[name] = own
	}
}

// settings returns what a service's replicas are made with.
func (s Services) settings(name string) service.Settings {
	own, known := map[string]any{
		"attention": s.Attention, "expert": s.Expert, "gate": s.Gate, "tokenizer": s.Tokenizer, "predictor": s.Predictor, "scaler": s.Scaler,
	}[name]
	if !known {
		own = s.Others[name]
	}
	return service.Settings{Own: own, Kafka: s.Kafka}
}

// Make makes one replica of the named service, which is not started.
func (s Services) Make(name string, d *deployment.Deployment) (lifecycle.Service, error) {
	of, err := services.Find(name)
	if err != nil {
		return nil, err
	}
	return of.New(d, s.settings(name))
}

// Check refuses what the model makes impossible for the services that run.
func (s Services) Check(of *model.Model, count map[string]int) error {
	for _, d := range services.All() {
		if count[d.Name] == 0 || d.Check == nil {
			continue
		}
		if err := d.Check(s.settings(d.Name), of); err != nil {
			return err
		}
	}
	return nil
}
