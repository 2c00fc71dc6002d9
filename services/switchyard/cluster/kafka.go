package cluster

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// embeddedLinger is how long samples wait for others on their way to a broker in
// this process: what that saves is time of the cores that compute tokens, and a
// scaler decides a few times a second.
const embeddedLinger = 50 * time.Millisecond

// embedKafka starts a broker in this process for services that have none.
func (y *Cluster) embedKafka() (err error) {
	s := &y.Settings
	if !s.EmbedKafka || s.Services.Kafka != nil {
		return nil
	}
	if y.broker, err = embedded.Start(embedded.Settings{Logger: s.Node.Shared.Logger}); err != nil {
		return err
	}
	s.Services.Kafka, s.Services.linger = &kafka.Config{Brokers: []string{y.broker.Addr()}}, embeddedLinger
	return nil
}

// openLoads starts to send samples of loads, if there is a Kafka for them.
func (p *Pipeline) openLoads() (err error) {
	if p.services.Kafka == nil {
		return nil
	}
	shared := &p.node.Shared
	count := func(outcome string, n int) { shared.Telemetry.Metrics.LoadSamples(outcome).Add(float64(n)) }
	for _, outcome := range kafka.WriterOutcomes {
		count(outcome, 0)
	}
	p.loads, err = kafka.NewWriter(kafka.WriterSettings{Config: *p.services.Kafka, Logger: shared.Logger, Count: count, Linger: p.services.linger})
	if err == nil {
		shared.Loads = both{p.loads, shared.Loads}
	}
	return err
}

// both takes samples to Kafka, and before to who listens in this process, if
// anybody does.
type both struct {
	kafka *kafka.Writer
	here  deployment.LoadSink
}

// Send takes a sample.
func (b both) Send(s *pb.LoadSample) {
	if b.here != nil {
		b.here.Send(s)
	}
	b.kafka.Send(s)
}

// flushWithin bounds how long the end of a process waits for Kafka.
const flushWithin = time.Second

// closeLoads sends what waits. What Kafka does not take by then is lost, which its
// counter says.
func (p *Pipeline) closeLoads(ctx context.Context) {
	if p.loads == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	if err := p.loads.Close(ctx); err != nil {
		p.node.Shared.Logger.Warn("the last samples of loads were not sent", "error", err)
	}
}
