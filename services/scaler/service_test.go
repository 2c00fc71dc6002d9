package scaler

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// An expert with many rows gets replicas, and the plan says why.
func TestHotExpertGainsReplicas(t *testing.T) {
	y := newStage(t, 3)
	y.apart()
	y.scaler(testConfig())
	testkit.Eventually(t, "a first plan", func() bool { return len(y.layer().GetFunctions()) > 0 })
	first := y.layer()
	if replicas(first, 0) != 1 || len(first.Functions) != y.d.Model.Spec.Experts {
		t.Errorf("the first plan is %v", first)
	}
	y.await("replicas, since that saves time", 0, func(lp *pb.LayerPlan) bool { return replicas(lp, 0) > 1 && strings.Contains(lp.Reason, "saves") })
	for name, least := range map[string]float64{
		"switchyard_scalers": 1, "switchyard_rebalances_total": 2, "switchyard_scaler_samples_total": 1, "switchyard_planned_replicas": 2,
		"switchyard_layer_balancedness_ratio": 0.01, "switchyard_plan_age_seconds": 1e-9, "switchyard_plan_decision_seconds": 1,
	} {
		testkit.Eventually(t, name, func() bool { return y.metric(name) >= least })
	}
}

// metric is a metric's sum over its labels.
func (y *stage) metric(name string) (sum float64) {
	families, err := prometheus.Gatherer(y.d.Telemetry.Registry).Gather()
	if err != nil {
		y.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// A counter that comes with its first step shows no increase.
func TestCountersFromTheStart(t *testing.T) {
	y := newStage(t, 3)
	y.scaler(testConfig())
	families, err := y.d.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.Metric)
	}
	for name, want := range map[string]int{"switchyard_rebalances_total": 18, "switchyard_scaler_refused_samples_total": 9} {
		if series[name] != want {
			t.Errorf("%s has %d series, want %d", name, series[name], want)
		}
	}
}

// A scaler that stands by reads nothing, and says nothing of Kafka.
func TestKafkaMetricsWhileActive(t *testing.T) {
	p := &policy{}
	read := p.whileActive(telemetry.Up("read", func() (bool, bool) { return true, true }))
	if got := read(); got != nil {
		t.Errorf("standing by: %v", got)
	}
	p.active = true
	if got := read(); len(got) != 1 || got[0].Value != 1 || got[0].Labels[0] != "read" {
		t.Errorf("planning: %v", got)
	}
}

// Only the scaler with the lease reads samples; the other one takes over where it
// ends, from the plan in force, and plans on by what comes then.
func TestStandbyTakesOver(t *testing.T) {
	y, stood := newStage(t, 3), testkit.Standing(t)
	first, stop := y.scaler(testConfig())
	testkit.Eventually(t, "the first one reads", func() bool { return len(y.topic.members()) == 1 })
	second, _ := y.scaler(testConfig())
	y.settled()
	y.await("replicas", 0, func(lp *pb.LayerPlan) bool { return replicas(lp, 0) > 1 })
	if stood() >= lease.TTL/8 {
		t.Skip("the machine stood still, so that a lease may have lapsed")
	}
	if got := y.topic.members(); len(got) != 1 || got[0] != first.id || second.Ready() != nil {
		t.Errorf("%v read; the second one: %v", got, second.Ready())
	}
	before := y.layer()
	stop()
	if y.log.count("stands by") != 0 {
		t.Error("a scaler that stopped stands by")
	}
	testkit.Eventually(t, "the second one reads", func() bool { got := y.topic.members(); return len(got) == 1 && got[0] == second.id })
	testkit.Eventually(t, "who takes over keeps the plan", func() bool { return replicas(y.layer(), 0) == replicas(before, 0) })
	y.await("other replicas", 1, func(lp *pb.LayerPlan) bool { return replicas(lp, 2) > 1 && lp.WriterEpoch > before.WriterEpoch })
	if y.topic.most != 1 && stood() < lease.TTL/8 {
		t.Errorf("%d scalers have read at a time", y.topic.most)
	}
}

// A scaler that has lost the lease, and goes on, says so.
func TestStandsBy(t *testing.T) {
	y := newStage(t, 1)
	lost, lose := context.WithCancel(t.Context())
	lose()
	y.prepare(testConfig()).policy.Hear(lost)
	if n := y.log.count("stands by"); n != 1 {
		t.Errorf("it said %d times that it stands by", n)
	}
}

// A scaler that was suspended and believes in its lease writes nothing after
// another one has: the plan's epoch fences it off.
func TestSuspendedScalerIsFenced(t *testing.T) {
	y := newStage(t, 3)
	old := y.prepare(testConfig())
	if _, err := y.d.Leases.PutString(t.Context(), "an-earlier-write", ""); err != nil { // so that the next epoch is above 1
		t.Fatal(err)
	}
	y.hold(old, stubborn{epoch: 1, holds: func(context.Context) (bool, error) { return false, nil }})
	testkit.Eventually(t, "the old one plans", func() bool { return y.layer().GetWriterEpoch() == 1 })
	resume := y.suspend(old)
	y.scaler(testConfig())
	y.await("the new one plans", 0, func(lp *pb.LayerPlan) bool { return replicas(lp, 0) > 1 && lp.WriterEpoch > 1 })
	before := y.layer()
	resume()
	testkit.Eventually(t, "the old one is refused", func() bool {
		old.policy.observe(hot(y, 2)) // which alone would lead to another plan
		return y.log.count("a planner with a later lease wrote the plan") > 0
	})
	if now := y.layer(); now.WriterEpoch < before.WriterEpoch || replicas(now, 2) > replicas(before, 2) {
		t.Errorf("the plan went from %v to %v", before, now)
	}
}

// suspend lets a scaler neither call the roll, nor hear or decide anything until
// it is resumed.
func (y *stage) suspend(s *Service) (resume func()) {
	s.policy.mu.Lock()
	s.presence.SetCalling(false)
	y.topic.mu.Lock()
	delete(y.topic.readers, s.id)
	y.topic.mu.Unlock()
	resume = sync.OnceFunc(s.policy.mu.Unlock)
	y.t.Cleanup(resume)
	return resume
}

// hot is a sample that only one scaler gets.
func hot(y *stage, expert uint32) (s *pb.LoadSample) {
	y.topic.mu.Lock()
	kept := y.topic.readers
	y.topic.readers = map[string]func(*pb.LoadSample){"": func(got *pb.LoadSample) { s = got }}
	y.topic.mu.Unlock()
	y.rows(expert, 1000)
	y.topic.mu.Lock()
	y.topic.readers = kept
	y.topic.mu.Unlock()
	return s
}

// What is no sample is told once of each kind, with the cure, counted, and changes
// nothing.
func TestBadSamples(t *testing.T) {
	y := newStage(t, 2)
	y.scaler(testConfig())
	testkit.Eventually(t, "it reads", func() bool { return len(y.topic.members()) == 1 })
	y.settled()
	check := y.unhurried(0)
	spoil := []func(*pb.LoadSample){
		func(s *pb.LoadSample) { s.Model++ },
		func(s *pb.LoadSample) { s.Layer = 99 },
		func(s *pb.LoadSample) { s.Host = "no replica" },
		func(s *pb.LoadSample) { s.Steps[0].Count[0]-- },
		func(s *pb.LoadSample) {
			s.Source, s.Steps, s.Host = pb.LoadSource_LOAD_SOURCE_UNSPECIFIED, nil, "expert-0"
			s.Memory = &pb.HostLoad{BudgetBytes: 1, UsedBytes: 2}
		},
		func(s *pb.LoadSample) {
			s.Source, s.Steps, s.Host = pb.LoadSource_LOAD_SOURCE_UNSPECIFIED, nil, "expert-absent"
			s.Memory = &pb.HostLoad{}
		},
	}
	for range 3 {
		for _, change := range spoil {
			s := hot(y, 0)
			change(s)
			y.topic.send(s)
		}
	}
	testkit.Eventually(t, "all are counted", func() bool { return y.metric("switchyard_scaler_refused_samples_total") == float64(3*len(spoil)) })
	for _, kind := range []string{"model", "layer", "sender", "counts", "memory"} {
		if n := y.log.count("kind=" + kind); n != 1 {
			t.Errorf("%d lines of kind %s", n, kind)
		}
	}
	check()
}

// What a host has refused for want of memory goes elsewhere, whatever memory it
// says that it has.
func TestRefusalsAreBelieved(t *testing.T) {
	y := newStage(t, 2)
	y.apart()
	y.scaler(testConfig())
	on := func(host string) (ids []string) {
		for _, f := range y.layer().GetFunctions() {
			if plan.WantOn(f, host) == pb.Want_WANT_WARM {
				ids = append(ids, f.Id)
			}
		}
		return ids
	}
	testkit.Eventually(t, "functions on the host", func() bool { return len(on("expert-0")) > 0 })
	refused, layer := on("expert-0")[0], y.d.MoELayers()[0]
	body, err := proto.Marshal(&pb.HostLayer{Host: "expert-0", Layer: uint32(layer), Functions: []*pb.FunctionState{
		{Id: refused, Phase: pb.FunctionPhase_FUNCTION_PHASE_REFUSED, NeedBytes: 2, RoomBytes: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := y.d.Functions.Put(t.Context(), planstore.HostKey(layer, "expert-0"), body); err != nil {
		t.Fatal(err)
	}
	y.await("another host", 0, func(*pb.LayerPlan) bool {
		return slices.Contains(on("expert-1"), refused) && !slices.Contains(on("expert-0"), refused)
	})
	if reason := y.layer().Reason; !strings.Contains(reason, "1 functions were refused") {
		t.Errorf("the reason is %q", reason)
	}
}

// A plan says in which trace it was decided on.
func TestPlanHasItsTrace(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{OTLPEndpoint: collector.URL, TraceSample: 1, ServiceName: "switchyard"})
	if err != nil {
		t.Fatal(err)
	}
	y := newStage(t, 1, func(d *deployment.Deployment) { d.Telemetry = tel })
	_, stop := y.scaler(testConfig())
	testkit.Eventually(t, "a plan with a trace", func() bool {
		_, ok := telemetry.LinkTo(y.layer().GetTraceparent())
		return ok
	})
	stop()
	if err := tel.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"--scaling":       func(c *Config) { c.Scaling = "magic" },
		"--cv":            func(c *Config) { c.CV = -1 },
		"--keep-alive":    func(c *Config) { c.KeepAlive = -time.Second },
		"--horizon":       func(c *Config) { c.Horizon = 48 * time.Hour },
		"--horizon is 0s": func(c *Config) { c.Horizon = 0 },
		"--message-time":  func(c *Config) { before := -time.Second; c.MessageTime = &before },
		"--zero-after":    func(c *Config) { c.ZeroAfter = -time.Second },
		"--keep-alive is 1m0s and --zero-after 59s":         func(c *Config) { c.ZeroAfter = 59 * time.Second },
		"--horizon is 10s, and loading an expert takes 11s": func(c *Config) { c.Load = 11 * time.Second },
		"--worth": func(c *Config) { c.Worth = math.NaN() },
		"":        func(*Config) {},
	} {
		c := testConfig()
		change(&c)
		if err := c.Check(); (err != nil) != (name != "") || err != nil && !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
