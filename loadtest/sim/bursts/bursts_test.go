package bursts

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

var shape = routing.Shape{Layers: 2, Experts: 12, TopK: 2}

func tape(t testing.TB) *requests.Tape {
	t.Helper()
	g, err := routing.New(shape, routing.Demo(), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	return requests.NewTape(g, sim.Replay{PerSecond: 1, Domains: 2, Cycle: time.Hour, Seed: 1})
}

// device takes 10 ms a step, 1 ms a prompt row, and 10 ms an access.
func settings() Settings {
	return Settings{
		Device: Device{Fixed: 0.01, Prompt: 0.001, Call: 0.009, Read: 0.001}, Shape: shape, Strategy: brownout.Partial, Way: 4,
		Thresholds: [2]int{brownout.One, brownout.One}, SLO: [2]float64{0.2, 0.15}, Seats: 16, Length: 256,
	}
}

func arrivals(t testing.TB, of *requests.Tape, n int, every float64, prompt, answer int) (all []Arrival) {
	t.Helper()
	for i := range n {
		at := float64(i) * every
		q := trace.Request{At: time.Duration(at * float64(time.Second)), Context: prompt, Generated: answer}
		all = append(all, Arrival{At: at, Prompt: prompt, Answer: answer, Reads: of.Reader(i, q)})
	}
	return all
}

func run(t testing.TB, all []Arrival, s Settings) *Result {
	t.Helper()
	r, err := Run(all, s, 100, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// One request of a prompt row: each step has two experts in both layers, 10 + 4·10 ms, and 1 ms
// more for the prompt.
func TestByHand(t *testing.T) {
	r := run(t, arrivals(t, tape(t), 1, 1, 1, 5), settings())
	if r.Tokens != 5 || r.Requests != 1 || math.Abs(r.Elapsed-0.251) > 1e-9 || math.Abs(r.TTFT[0]-0.051) > 1e-9 || math.Abs(r.TPOT[0]-0.05) > 1e-9 {
		t.Errorf("%+v", r)
	}
	if r.Before != 20 || r.After != 20 || r.Routed != 20 || r.Kept != 20 || r.Steps != [2]int{1, 4} {
		t.Errorf("accesses %d of %d, rows %d of %d, steps %v", r.After, r.Before, r.Kept, r.Routed, r.Steps)
	}
	fused := settings()
	fused.Device.Fused = true // a call a layer: 10 + 2·(9 + 2·1) ms
	if r := run(t, arrivals(t, tape(t), 1, 1, 1, 2), fused); math.Abs(r.TPOT[0]-0.032) > 1e-9 {
		t.Errorf("fused %v", r.TPOT)
	}
}

// Whatever the requests and settings: every token is made, no policy accesses more than without
// brownout, and the same settings give the same result.
func TestProperties(t *testing.T) {
	of := tape(t)
	rapid.Check(t, func(t *rapid.T) {
		n, answer := rapid.IntRange(1, 30).Draw(t, "requests"), rapid.IntRange(1, 20).Draw(t, "answer")
		s := settings()
		s.Control = Control(rapid.IntRange(0, 3).Draw(t, "control"))
		s.Way = rapid.IntRange(2, 12).Draw(t, "way")
		if s.Control == None {
			s.Thresholds = [2]int{rapid.IntRange(0, brownout.One).Draw(t, "prefill"), rapid.IntRange(0, brownout.One).Draw(t, "decode")}
		}
		if rapid.Bool().Draw(t, "exempt") {
			s.Exempt = []int{0}
		}
		var all []Arrival
		for i := range n {
			q := trace.Request{Context: 7, Generated: answer}
			all = append(all, Arrival{At: float64(i) / 20, Prompt: 7, Answer: answer, Reads: of.Reader(i, q)})
		}
		r, err := Run(all, s, 100, 1e6)
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests != n || r.Unfinished != 0 || r.Tokens != n*answer || r.After > r.Before || r.Kept > r.Routed || r.Gaps != n*(answer-1) {
			t.Fatalf("%+v", r)
		}
		again, err := Run(all, s, 100, 1e6)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v, then %+v", r, again)
		}
	})
}

// In a burst both controls keep the SLO for longer than none, and are back at 1 behind it.
func TestBurst(t *testing.T) {
	of := tape(t)
	var all []Arrival
	for i := range 260 {
		at := float64(i) / 4
		if i >= 80 { // from 20 s on three times as many, until 32 s
			at = 20 + float64(i-80)/15
		}
		all = append(all, Arrival{At: at, Prompt: 2, Answer: 24, Reads: of.Reader(i, trace.Request{Context: 2, Generated: 24})})
	}
	s := settings()
	base := run(t, all, s)
	for _, c := range []Control{Algorithm2, Steady, Ahead} {
		s.Control = c
		r := run(t, all, s)
		was, _, _ := base.MissedSeconds(Decode, 20, 40, s.SLO[Decode])
		missed, threshold, _ := r.MissedSeconds(Decode, 20, 40, s.SLO[Decode])
		if !(was > 0.5 && missed < was && threshold < 1 && r.After < r.Before) {
			t.Errorf("control %d: %v of the seconds miss, %v without; threshold %v", c, missed, was, threshold)
		}
	}
}

// While a second replica is cold a brownout keeps steps within the SLO that would miss it, and behind that
// thresholds are 1 again, though the load stays: a scaler that goes by demand is not deceived.
func TestBridges(t *testing.T) {
	all := arrivals(t, tape(t), 1000, 0.1, 2, 24)
	s := settings()
	s.Scale, s.SLO[Decode] = 40, 0.18
	scaled := run(t, all, s)
	for _, c := range []Control{Algorithm2, Steady, Ahead} {
		s.Control = c
		r := run(t, all, s)
		at := r.Scaled
		cold, low, _ := r.MissedSeconds(Decode, 0, at, s.SLO[Decode])
		without, _, _ := scaled.MissedSeconds(Decode, 0, scaled.Scaled, s.SLO[Decode])
		warm, _, _ := r.MissedSeconds(Decode, at+30, 90, s.SLO[Decode])
		if !(at > 0 && without > 0.9 && cold < 0.5 && low < 1 && warm == 0 && r.Back(at, 90) <= 30) {
			t.Errorf("control %d: the second replica came at %v s; until then %v of the seconds miss, %v without, at threshold %v; then %v, and it is at 1 after %v s", c, at, cold, without, low, warm, r.Back(at, 90))
		}
	}
}

// A second replica halves what experts take, once it is there; shedding refuses requests.
func TestOtherWays(t *testing.T) {
	of := tape(t)
	all := arrivals(t, of, 300, 0.05, 2, 24)
	s := settings()
	base := run(t, all, s)
	s.Scale = 5
	if r := run(t, all, s); r.Elapsed >= base.Elapsed || r.Tokens != base.Tokens {
		t.Errorf("with a second replica %v s, without %v", r.Elapsed, base.Elapsed)
	}
	s.Scale, s.Shed = 0, true
	if r := run(t, all, s); r.Refused == 0 || r.Refused+r.Requests != 300 {
		t.Errorf("%d refused, %d served", r.Refused, r.Requests)
	}
}

// The device is such that the authors' figures come out.
func TestA100s(t *testing.T) {
	d := A100s(false)
	few := make([]int, 60)
	for i := range few {
		few[i] = 4
	}
	if step := d.Fixed + 24*d.layer(few); math.Abs(step-0.24) > 1e-9 {
		t.Errorf("a decode step with all experts takes %v s", step)
	}
	if share := 24 * d.layer(few) / (d.Fixed + 1000*d.Prompt + 24*d.layer(few)); math.Abs(share-0.8123) > 0.03 {
		t.Errorf("experts take %v of a prefill step", share)
	}
	if d.Call < 1e-4 || d.Call > 2e-4 || d.Prompt <= 0 {
		t.Errorf("%+v", d)
	}
}

func TestRefused(t *testing.T) {
	of := tape(t)
	for name, tt := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"way 1":     {func(s *Settings) { s.Way = 1 }, "the way is 1"},
		"threshold": {func(s *Settings) { s.Thresholds[1] = brownout.One + 1 }, "1000001 millionths"},
		"SLO":       {func(s *Settings) { s.SLO[0] = 0 }, "both must be above 0"},
		"layer":     {func(s *Settings) { s.Exempt = []int{2} }, "layer 2 is exempt; there are 2"},
		"seats":     {func(s *Settings) { s.Seats = 0 }, "0 sequences"},
		"device":    {func(s *Settings) { s.Device.Read = math.NaN() }, "times are numbers of at least 0"},
		"scale":     {func(s *Settings) { s.Scale = -1 }, "after -1 s"},
	} {
		s := settings()
		tt.change(&s)
		if _, err := Run(arrivals(t, of, 1, 1, 1, 1), s, 1, 1); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if _, err := Run(nil, settings(), 1, 1); err == nil {
		t.Error("no requests are served")
	}
}
