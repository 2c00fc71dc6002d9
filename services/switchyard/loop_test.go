package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
	by "github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// outage is a broker that comes and goes, with what it keeps.
type outage struct {
	t        *testing.T
	settings embedded.Settings
	broker   *embedded.Broker
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{t: t, settings: embedded.Settings{Listen: testkit.FreeAddr(t), Topics: []string{kafka.DefaultTopic}, Dir: t.TempDir()}}
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
	t.Parallel()
	o := newOutage(t)
	dir := goldens.Dir("mixtral")
	y := startUp(t, func(c *up.Cmd) {
		c.Model, c.Hosts, c.Listen, c.Kafka = []string{dir}, 2, testkit.FreeAddr(t), []string{o.settings.Listen}
	})
	want := by.Direct(t, dir, tensor.BF16).Tokens
	flags := []string{"--model", dir, "--kafka", o.settings.Listen, "--threads", "1"}
	eagerly := append([]string{"--cv", "0.01", "--horizon", "10m", "--message-time", "0s", "--worth", "0", "--no-feedback"}, flags...)
	hears := func(when string, s *probed) {
		t.Helper()
		before := s.samples(t)
		testkit.Eventually(t, "samples come "+when, func() bool {
			by.Same(t, y, want, when)
			return s.samples(t) > before
		})
	}
	predictor, scaler := startProbed(t, "predictor", y.URL(), flags...).ready(t), startProbed(t, "scaler", y.URL(), eagerly...).ready(t)
	hears("at first", scaler)
	predictor.stop()
	hears("without a predictor", scaler)
	scaler.stop()
	by.Same(t, y, want, "without a scaler")
	another := startProbed(t, "scaler", y.URL(), eagerly...).ready(t)
	hears("to another scaler", another)
	o.broker.Close()
	by.Same(t, y, want, "without Kafka")
	o.start()
	hears("when Kafka is back", another)
}
