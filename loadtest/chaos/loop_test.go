package chaos

import (
	"strconv"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// loopAway is how long the parts of the control loop are away.
var loopAway = map[string]time.Duration{"1": 10 * time.Second, "long": time.Minute}

// TestControlLoop kills predictors, scalers and Kafka while requests run. They get
// the tokens that they get without any of these; no plan takes the place of a newer
// one; and when all is back, plans follow the loads again.
func TestControlLoop(t *testing.T) {
	away, ok := loopAway[wanted(t)]
	if !ok {
		t.Skip("this takes minutes: set SWITCHYARD_CHAOS to 1 or long")
	}
	l := newLoop(t, fleet.Build(t))
	defer func() { t.Log("\n" + l.table()) }()
	l.Scale(1, 3)
	l.alone()
	l.start("predictor", "scaler", "scaler")
	l.batch("loop", nil)
	l.follows("at first")
	for i, kind := range []string{"predictor", "scaler", "scaler"} {
		l.batch(numbered("kill-"+kind, i), func() { l.Kill(kind) })
		l.start(kind)
		l.follows("after a " + kind + "'s end")
	}
	l.without("kafka", away, l.kafka.Kill, l.kafka.Start)
	l.without("scalers", away, l.killScalers, func() { l.start("scaler", "scaler") })
	l.without("kafka-and-scalers", away, func() { l.kafka.Kill(); l.killScalers() }, func() { l.kafka.Start(); l.start("scaler", "scaler") })
}

// loop is a pipeline with a control loop that goes after little.
type loop struct {
	*pipeline
	kafka *fleet.Broker
	plans *written
	asked int // while it was looked whether plans follow
}

// loopKeepAlive is when experts without rows go to zero, so that plans change.
const loopKeepAlive = 2 * time.Second

func newLoop(t *testing.T, programs string) *loop {
	t.Helper()
	kafka := fleet.NewBroker(t, programs)
	for name, value := range map[string]string{"KAFKA": kafka.Addr(), "KEEP_ALIVE": loopKeepAlive.String(), "HORIZON": "2s", "CV": "0.05"} {
		t.Setenv("SWITCHYARD_"+name, value)
	}
	return &loop{pipeline: startPipeline(t, programs, "unacked"), kafka: kafka}
}

// changes are flags with which plans of a small model change: messages cost nothing.
var changes = map[string][]string{"scaler": {"--message-time", "0s"}}

// start starts processes of these kinds, and waits until they are ready.
func (l *loop) start(kinds ...string) {
	l.T.Helper()
	for _, kind := range kinds {
		l.Add(kind, changes[kind]...).Await(l.T, "ready")
	}
	if l.plans == nil {
		l.plans = l.followPlans()
	}
}

func (l *loop) killScalers() {
	for l.Count("scaler") > 0 {
		l.Kill("scaler")
	}
}

// without sends requests while something goes away, is away, and is back.
func (l *loop) without(what string, away time.Duration, leave, back func()) {
	l.T.Helper()
	l.batch("kill-"+what, leave)
	for end, i := time.Now().Add(away), 1; time.Now().Before(end); i++ {
		l.batch(numbered("without-"+what, i), nil)
	}
	l.batch("return-of-"+what, back)
	l.follows("when " + what + " is back")
}

// followWithin bounds how long the loop takes until it follows the loads again.
const followWithin = time.Minute

// follows wants plans to change by loads: experts go to zero and come back while
// hardly anybody asks.
func (l *loop) follows(when string) {
	l.T.Helper()
	before := l.plans.count()
	for end := time.Now().Add(followWithin); l.plans.count() == before; {
		if time.Now().After(end) {
			l.T.Fatalf("plans do not follow the loads %s", when)
		}
		time.Sleep(loopKeepAlive + time.Second)
		l.asked++
		l.compareOne("following", 0, l.one(numbered("following", l.asked)))
	}
	l.plans.check(l.T)
}

// numbered names a scenario that happens several times: its requests have names by it.
func numbered(scenario string, i int) string { return scenario + "-" + strconv.Itoa(i) }

func (l *loop) one(scenario string) answer {
	l.T.Helper()
	a, err := l.load.run(scenario, 0, func(int) {})
	if err != nil {
		l.T.Fatal(err)
	}
	return a
}
