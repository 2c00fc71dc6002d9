package arena

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
)

// Lengths of all traces are multiplied by one factor, by which the longest fills the context.
func TestScaled(t *testing.T) {
	long := OnlineTrace{Requests: []trace.Request{{At: time.Second, Context: 900, Generated: 124}, {At: 3 * time.Second, Context: 2000, Generated: 48}}}
	short := OnlineTrace{Requests: []trace.Request{{Context: 1, Generated: 1}}}
	factor, err := OnlineFactor([]OnlineTrace{short, long}, 1, 512)
	if err != nil || factor != 0.25 {
		t.Errorf("%v, %v", factor, err)
	}
	if got := long.Scaled(1, factor, 512); got[0].Context != 225 || got[0].Generated != 31 || got[1].Tokens() != 512 || got[1].At != 750*time.Millisecond {
		t.Errorf("%+v", got)
	}
	if got := short.Scaled(1, factor, 512); got[0].Context != 1 || got[0].Generated != 1 {
		t.Errorf("%+v", got)
	}
	answers := OnlineTrace{Requests: []trace.Request{{Context: 1, Generated: 4095}}}
	if got := answers.Scaled(1, 0.125, 512); got[0].Context != 1 || got[0].Generated != 511 {
		t.Errorf("nearly all is the answer: %+v", got)
	}
	if factor, err := OnlineFactor([]OnlineTrace{short}, 1, 512); err != nil || factor != 1 {
		t.Errorf("short requests are multiplied by %v, %v", factor, err)
	}
	if _, err := OnlineFactor(nil, 1, 512); err == nil {
		t.Error("a factor of nothing")
	}
}

// A trace's requests are served live from empty stores, and simulated: figure 10 has both.
func TestOnlineLive(t *testing.T) {
	if testkit.Race {
		t.Skip("nothing runs side by side here")
	}
	t.Parallel()
	_, r := demoRecorded(t)
	rs := []trace.Request{{Context: 30, Generated: 3}, {At: time.Second, Context: 5, Generated: 1}}
	asked, err := r.Online(rs, 1)
	if err != nil || len(asked) != 2 || len(asked[0].IDs) != 30 || asked[0].Answer != 2 || asked[1].Answer != 0 {
		t.Fatalf("%+v, %v", asked, err)
	}
	profile, err := profiles.Open("rtx3090-phi-3.5-moe")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewOnlinePipeline(r, OffloadPipeline{Seed: 1, Distance: 3, Capacity: 100, Profile: profile, Hosts: 6})
	if err != nil {
		t.Fatal(err)
	}
	rs = rs[:1]
	for len(rs) < len(p.Served) {
		rs = append(rs, trace.Request{})
	}
	report := &OffloadLiveReport{Model: "demo", Trace: "short", Factor: 0.5, Budgets: []float64{12}}
	run := OffloadRun{Policy: offload.FMoE, Budget: 12, Repeat: 1, TTFT: 100}
	for range rs {
		run.Of([]replay.Answer{{Sent: time.Second, Tokens: make([]uint32, 3), Times: []time.Duration{2 * time.Second, 3 * time.Second}}})
	}
	if run.Served[0] != 2 || run.TPOT != 500 {
		t.Errorf("%+v", run)
	}
	report.Runs = append(report.Runs, run)
	policy, err := FindLiveOffload(offload.FMoE)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Conclude(p, []LiveOffload{policy}); err != nil {
		t.Fatal(err)
	}
	served, err := report.Online(p, []LiveOffload{policy}, rs)
	if err != nil || len(served) != 2 || served[0].Device != onPaced || served[1].Device != onSimulated || len(served[1].Served) != len(rs) {
		t.Fatalf("%+v, %v", served, err)
	}
	last := report.Fidelity[len(report.Fidelity)-1]
	if last.What != "served" || last.Live != 2000 || math.Abs(last.Simulated-1e3*average(served[1].Served)) > 1e-6 {
		t.Errorf("%+v beside %v", last, served[1].Served)
	}
	out := t.TempDir()
	if err := OnlineReport(p, report.Budgets, served).Write(out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil || !strings.Contains(string(page), "times 0.50000") || strings.Count(string(page), "(figure 10)") != 2 {
		t.Errorf("%.300s, %v", page, err)
	}
	if table, err := os.ReadFile(filepath.Join(out, "online.csv")); err != nil || !strings.Contains(string(table), "short,demo,fmoe,1,2,") || !strings.Contains(string(table), "paced,0.5") {
		t.Errorf("%.200s, %v", table, err)
	}
}
