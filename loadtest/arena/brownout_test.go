package arena

import (
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/bursts"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// In a burst as the authors', both controllers keep the decode objective in more seconds than no
// brownout does, with fewer accesses, and what they say of throughputs is told beside eq. 2.
func TestBurst(t *testing.T) {
	if testkit.Race {
		t.Skip("one goroutine does all of it")
	}
	g, err := routing.New(qwen, routing.Demo(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &Brownout{Trace: []trace.Request{{Context: 900, Generated: 220}, {Context: 1200, Generated: 180}}, Seed: 1}
	l := &lab{s, requests.NewTape(g, sim.Replay{PerSecond: 1, Domains: 1, Cycle: time.Hour, Seed: 1})}
	some := slices.DeleteFunc(slices.Clone(rivals), func(v rival) bool { return v.scale > 0 && v.control != bursts.None || v.name == "drop" })
	lines, err := l.burst(traffics[0], false, "paper", 1, some)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]BrownoutLine{}
	for _, line := range lines {
		by[line.Policy] = line
	}
	none := by["none"]
	for _, name := range []string{"brownout", "steady", "ahead"} {
		if got := by[name]; !(got.MissPrefillSeconds < none.MissPrefillSeconds/2 && none.MissDecodeSeconds > 0.5 && got.MissDecodeSeconds < none.MissDecodeSeconds/2 && got.Accesses < none.Accesses && got.ThresholdDecode < 1) {
			t.Errorf("%s: %+v, none: %+v", name, got, none)
		}
	}
	if by["shed"].Refused == 0 || by["scale"].MissDecodeSeconds >= none.MissDecodeSeconds {
		t.Errorf("shed %+v, scale %+v", by["shed"], by["scale"])
	}
	r := &BrownoutReport{Lines: lines}
	r.compare()
	if got := r.Lines[2]; got.Ratio < 1 || got.Predicted < 1 || r.Lines[0].Ratio != 1 {
		t.Errorf("%+v", got)
	}
}
