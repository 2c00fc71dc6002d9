package arena

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
)

// Live runs serve the recorded texts, know the recorded answers, and are compared with each other
// and with the simulator repeat by repeat.
func TestOffloadLive(t *testing.T) {
	if testkit.Race {
		t.Skip("nothing runs side by side here")
	}
	t.Parallel()
	m, r := demoRecorded(t)
	profile, err := profiles.Open("rtx3090-phi-3.5-moe")
	if err != nil {
		t.Fatal(err)
	}
	set := OffloadPipeline{Seed: 1, Distance: 3, Capacity: 100, Profile: profile, Hosts: 6}
	p, err := NewOffloadPipeline(r, offload.DefaultTexts(), set)
	if err != nil {
		t.Fatal(err)
	}
	var answers []replay.Answer
	for i, q := range p.Requests() {
		text := p.Served[i]
		if len(q.IDs) != text.Prompt || q.Tokens != text.N-text.Prompt+1 {
			t.Errorf("request %d: %d tokens, then %d", i, len(q.IDs), q.Tokens)
		}
		answers = append(answers, replay.Answer{Tokens: append(append([]uint32(nil), text.Tokens[text.Prompt:]...), 7)})
	}
	if err := p.Answered(answers); err != nil {
		t.Error(err)
	}
	answers[0].Tokens[1]++
	if err := p.Answered(answers); err == nil || !strings.Contains(err.Error(), "the same --seed") {
		t.Errorf("%v", err)
	}
	answers[0].Err = errors.New("it is gone")
	if err := p.Answered(answers); err == nil || !strings.Contains(err.Error(), "request 1: it is gone") {
		t.Errorf("%v", err)
	}
	if store, err := p.Maps(m.Hash, "default"); err != nil || store.Len("default") == 0 || store.Model != m.Hash {
		t.Errorf("%v, %v", store, err)
	}
	report := &OffloadLiveReport{Model: "demo", Budgets: []float64{12}}
	stages := map[string]map[string]float64{"decode": {stageOwn: 0.5, "messages": 0.4, stageTotal: 7}}
	for repeat := 1; repeat <= 2; repeat++ {
		of := float64(repeat)
		report.Runs = append(report.Runs,
			OffloadRun{Policy: liveHeld, Repeat: repeat, TTFT: 80 * of, TPOT: 10 * of},
			OffloadRun{Policy: offload.OnDemand, Budget: 12, Repeat: repeat, TTFT: 400 * of, TPOT: 60 * of, Hits: 0.1, Stages: stages, Load: 0.006},
			OffloadRun{Policy: offload.FMoE, Budget: 12, Repeat: repeat, TTFT: 200 * of, TPOT: 45 * of, Hits: 0.4})
	}
	if err := report.Conclude(p, LiveOffloads()); err != nil {
		t.Fatal(err)
	}
	if c := report.Changes[1]; c.Policy != offload.FMoE || c.What != tpot.what || math.Abs(c.Change+0.25) > 1e-9 || c.High-c.Low > 1e-9 {
		t.Errorf("%+v", c)
	}
	if f := report.Fidelity; len(f) != 2*3 || f[4].What != tpot.what || f[4].Simulated <= 15 || f[4].Live != 67.5 || f[4].Low >= f[4].High {
		t.Errorf("%+v", f)
	}
	if b := report.Told[0].Beside; b.Decode.Hops != 0.2e-3 || math.Abs(b.Load-(0.006-157286400/32e9)) > 1e-9 || math.Abs(b.Decode.Step-0.030) > 1e-9 {
		t.Errorf("%+v", b)
	}
	set.Distance = 8
	if _, err := NewOffloadPipeline(r, offload.DefaultTexts(), set); err == nil || !strings.Contains(err.Error(), "it must be 1 to 7") {
		t.Errorf("%v", err)
	}
	if _, err := FindLiveOffload("clock"); err == nil || !strings.Contains(err.Error(), "on-demand") {
		t.Errorf("%v", err)
	}
}

// A request waits for those before it.
func TestQueued(t *testing.T) {
	at := []trace.Request{{At: 5e9}, {At: 6e9}, {At: 20e9}}
	got := queued(at, []float64{3, 2, 1})
	if got[0] != 3 || got[1] != 4 || got[2] != 1 {
		t.Errorf("%v", got)
	}
	if all := (OnlineTrace{Requests: at}).drawn(1); len(all) != 3 || all[0].At != 5e9 || all[2].At != 20e9 {
		t.Errorf("%v", all)
	}
}
