package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/verify"
)

// eager lets a scaler change plans for little: over so long a horizon every gain
// pays for its loads, and the messages of a small model count for nothing. On a crowded
// machine functions are dropped again before they are warm: tests with it run alone.
func eager(up *UpCmd) {
	up.CV, up.Horizon, up.KeepAlive, up.MessageTime = 0.01, 10*time.Minute, time.Second, "0s"
	up.Worth, up.Feedback = 0, false
}

// asked is a pipeline with somebody who asks it, and who knows the answers.
type asked struct {
	*verify.Asker
	t     *testing.T
	want  [][]uint32
	plans jetstream.KeyValue
}

func ask(t *testing.T, y *cluster.Cluster) *asked {
	t.Helper()
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	n := y.Settings.Node
	a := &asked{t: t, Asker: &verify.Asker{
		Client: client.New(conn.NATS(), client.Settings{Prefix: n.Shared.Prefix, Model: n.ModelName()}), Vocab: n.Shared.Model.Spec.Vocab,
	}}
	a.want = directAnswers(t, pipelineModels[0], tensor.BF16).tokens
	if a.plans, err = conn.JetStream().KeyValue(t.Context(), n.Names().Bucket("plans")); err != nil {
		t.Fatal(err)
	}
	return a
}

// answers wants the answers of direct calls.
func (a *asked) answers(when string) {
	a.t.Helper()
	if got := pipelineTokens(a.t, a.Asker); !slices.EqualFunc(got, a.want, slices.Equal) {
		a.t.Fatalf("%s: tokens\n got %v\nwant %v", when, got, a.want)
	}
}

// until asks again and again until something has happened.
func (a *asked) until(what string, happened func() bool) {
	a.t.Helper()
	testkit.Eventually(a.t, what, func() bool {
		a.answers(what)
		return happened()
	})
}

// scaled is how many layers have a plan that was made by loads, and versions the
// sum of all layers' versions.
func (a *asked) scaled() (layers int, versions uint64) {
	a.t.Helper()
	keys, err := a.plans.Keys(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, key := range keys {
		entry, err := a.plans.Get(a.t.Context(), key)
		l := &pb.LayerPlan{}
		if err != nil || proto.Unmarshal(entry.Value(), l) != nil {
			continue // settings
		}
		versions += l.Version
		if strings.HasPrefix(l.Reason, "moeless") {
			layers++
		}
	}
	return layers, versions
}

// untilScaled asks until plans have changed by loads.
func (a *asked) untilScaled() {
	a.t.Helper()
	_, before := a.scaled()
	a.until("plans change", func() bool {
		layers, versions := a.scaled()
		return layers > 0 && versions > before
	})
}

// Seven services in one process answer as five do while a scaler changes plans.
func TestLoopIsDirect(t *testing.T) {
	y := startPipeline(t, pipelineModels[0], tensor.BF16, schemas.HopsUnacked, 3, func(up *UpCmd) { up.Scaling = "moeless"; eager(up) })
	a := ask(t, y)
	a.untilScaled()
	a.answers("by the changed plan")
}

// outage is a broker that comes and goes, with what it keeps.
type outage struct {
	t        *testing.T
	settings embedded.Settings
	broker   *embedded.Broker
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{t: t, settings: embedded.Settings{Listen: freeAddress(t), Topics: []string{kafka.DefaultTopic}, Dir: t.TempDir()}}
	o.start()
	t.Cleanup(func() { o.broker.Close() })
	return o
}

func (o *outage) start() {
	o.t.Helper()
	var err error
	if o.broker, err = embedded.Start(o.settings); err != nil {
		o.t.Fatal(err)
	}
}

// ready waits until a service can work.
func (p *probed) ready(t *testing.T) *probed {
	t.Helper()
	testkit.Eventually(t, "it is ready", func() bool {
		status, _ := p.get(t, "/readyz")
		return status == http.StatusOK
	})
	return p
}

// samples are the load samples that a scaler has taken in.
func (p *probed) samples(t *testing.T) (n float64) {
	t.Helper()
	_, page := p.get(t, "/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "switchyard_scaler_samples_total{") && strings.Contains(line, `outcome="taken"`) {
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// What belongs to the control loop stops in the middle of requests, each alone and
// Kafka too: they get the answers of direct calls, and a scaler hears of loads as
// soon as it can.
func TestLoopIsNotMissed(t *testing.T) {
	o := newOutage(t)
	y := startPipeline(t, pipelineModels[0], tensor.BF16, schemas.HopsUnacked, 3, func(up *UpCmd) {
		up.Listen, up.Kafka, up.KeepAlive = freeAddress(t), []string{o.settings.Listen}, time.Second
	})
	a := ask(t, y)
	flags := []string{"--kafka", o.settings.Listen, "--threads", "1"}
	eagerly := append([]string{"--cv", "0.01", "--horizon", "10m", "--message-time", "0s", "--worth", "0", "--no-feedback", "--keep-alive", "1s"}, flags...)
	hears := func(when string, s *probed) {
		t.Helper()
		before := s.samples(t)
		a.until("samples come "+when, func() bool { return s.samples(t) > before })
	}
	predictor, scaler := startProbed(t, "predictor", y.URL(), flags...).ready(t), startProbed(t, "scaler", y.URL(), eagerly...).ready(t)
	hears("at first", scaler)
	predictor.stop()
	hears("without a predictor", scaler)
	scaler.stop()
	a.answers("without a scaler")
	another := startProbed(t, "scaler", y.URL(), eagerly...).ready(t)
	hears("to another scaler", another)
	o.broker.Close()
	a.answers("without Kafka")
	o.start()
	hears("when Kafka is back", another)
}

// A connection of the control loop that the server closes for good ends nothing.
func TestLoopEndsAlone(t *testing.T) {
	t.Parallel()
	y := startPipeline(t, pipelineModels[0], tensor.BF16, schemas.HopsUnacked, 1, func(up *UpCmd) { up.Scaling = "static" })
	a := ask(t, y)
	for _, conn := range y.Pipeline.Connections()[len(cluster.Names)+1:] { // a tokenizer has two
		if err := conn.NATS().Publish(strings.Repeat("x", 5000), nil); err != nil {
			t.Fatal(err)
		}
		<-conn.Closed()
	}
	a.answers("without the control loop")
	testkit.Eventually(t, "it is ready", func() bool { return y.Pipeline.Ready() == nil }) // unless a member is late
	if err := y.Pipeline.Live(); err != nil {
		t.Error(err)
	}
}
