package cluster

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/services/aggregator"
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
	// Plans are settings of plans that are written before an expert host starts;
	// those that are empty or 0 stay as they are.
	Plans plan.Settings
	// Kafka is where samples of experts' loads go, and come from; nil: nowhere.
	Kafka *kafka.Config
	// Edge is how a tokenizer reaches producers; nil: as everything else.
	Edge *bus.Config

	linger time.Duration // of samples before they are sent; 0: the writer's own
}

// Names of the services that a token passes, in the order of starting: who is sent
// to comes before who sends.
var Names = []string{"aggregator", "expert", "gate", "attention", "tokenizer"}

// Loop are the services of the control loop. They start last, and nobody waits for
// them: without them tokens flow as well.
var Loop = []string{"predictor", "scaler"}

// OneEach is one replica of each service that a token passes.
func OneEach() map[string]int {
	count := map[string]int{}
	for _, name := range Names {
		count[name] = 1
	}
	return count
}

// Check refuses what the model makes impossible for the services that run.
func (s Services) Check(of *model.Model, count map[string]int) error {
	if count["attention"] > 0 {
		if err := s.Attention.Check(of); err != nil {
			return err
		}
	}
	if count["expert"] > 0 {
		if err := s.Expert.Check(of); err != nil {
			return err
		}
	}
	if count["gate"] > 0 {
		if err := s.Gate.Check(of); err != nil {
			return err
		}
	}
	if count["predictor"] > 0 {
		return s.Predictor.Check(of)
	}
	return nil
}

// prepare writes what a service's deployment is to have before it starts.
func (s Services) prepare(ctx context.Context, name string, d *deployment.Deployment) error {
	if name != "expert" || s.Plans == (plan.Settings{}) {
		return nil
	}
	_, err := d.Plans.ChangeSettings(ctx, s.Plans)
	return err
}

// Make makes one replica of the named service.
func (s Services) Make(name string, d *deployment.Deployment) (lifecycle.Service, error) {
	switch name {
	case "aggregator":
		return aggregator.New(d), nil
	case "expert":
		return expert.New(d, s.Expert)
	case "gate":
		return gate.New(d, s.Gate), nil
	case "attention":
		return attention.New(d, s.Attention), nil
	case "predictor":
		return predictor.New(d, s.Predictor), nil
	case "scaler":
		return scaler.New(d, s.scaler()), nil
	}
	return tokenizer.New(d, s.Tokenizer), nil
}

// scaler reads where the others write.
func (s Services) scaler() scaler.Config {
	c := s.Scaler
	if s.Kafka != nil {
		c.Kafka = *s.Kafka
	}
	return c
}
