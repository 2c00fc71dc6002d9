package cluster

import (
	"cmp"
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// embeddedLinger is how long samples wait for others on their way to a broker in
// this process: what that saves is time of the cores that compute tokens, and a
// scaler decides a few times a second.
const embeddedLinger = 50 * time.Millisecond

// embedKafka starts a broker in this process for services that have none. They reach it
// without a port.
func (y *Cluster) embedKafka() (err error) {
	s := &y.Settings
	if !s.EmbedKafka || s.Services.Kafka != nil {
		return nil
	}
	e := embedded.Settings{
		Listen: s.KafkaListen, Topics: []string{cmp.Or(s.KafkaTopic, kafka.DefaultTopic)}, Partitions: kafka.LeastPartitions, Logger: s.Node.Shared.Logger,
	}
	if e.Listen != "" && y.Users() != nil {
		e.User = credentials.KafkaUser
		if e.Password, err = y.Users().KafkaPassword(); err != nil {
			return err
		}
	}
	if y.broker, err = embedded.Start(e); err != nil {
		return err
	}
	if e.Listen != "" && e.User == "" {
		s.Node.Shared.Logger.Warn("every process of this machine reaches Kafka's port; --auth asks for a password there", "listen", y.broker.Addr())
	}
	s.Services.Kafka = &kafka.Config{Brokers: []string{y.broker.Addr()}, Topic: e.Topics[0], Dial: y.broker.Dial, Insecure: true}
	s.Services.linger = embeddedLinger
	return nil
}

// KafkaAddr is where other processes reach the broker in this one; empty: nowhere.
func (y *Cluster) KafkaAddr() string {
	if y.broker == nil || y.Settings.KafkaListen == "" {
		return ""
	}
	return y.broker.Addr()
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
	p.loads, err = kafka.NewWriter(kafka.WriterSettings{Config: *p.services.Kafka, Logger: shared.Logger.With("service", p.firstService()), Count: count, Linger: p.services.linger})
	if err == nil {
		p.adder = loads.NewAdder(p.loads.Send)
		shared.Loads = both{p.adder, shared.Loads}
		p.unfollow = shared.Telemetry.Metrics.Kafka.Up.Follow(telemetry.Up("write", p.loads.Up))
	}
	return err
}

// firstService returns the service that stands for this process's in lines of what they share: it has one, or all.
func (p *Pipeline) firstService() string {
	var names []string
	for name, n := range p.count {
		if n > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return names[0]
	}
	return "all"
}

// both takes samples to Kafka, and before to who listens in this process, if
// anybody does.
type both struct {
	kafka *loads.Adder
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
	p.unfollow()
	p.adder.Close()
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	if err := p.loads.Close(ctx); err != nil {
		p.node.Shared.Logger.Warn("the last samples of loads were not sent", "error", err)
	}
}
