package arena

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/parallel"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/bursts"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Brownout are the settings of the suite brownout: BrownoutServe's figures 7 to 9 and 11 to 13,
// with Qwen1.5-MoE-A2.7B's shape on four A100 as its authors measured them.
type Brownout struct {
	Trace    []trace.Request // whose tokens requests have
	Source   string          // its name
	Seed     uint64
	Seeds    int     // of bursts; 0 is none of them
	Minutes  float64 // of each rate's run
	Threads  int
	Progress func(format string, args ...any)
}

// qwen is Qwen1.5-MoE-A2.7B.
var qwen = routing.Shape{Layers: 24, Experts: 60, TopK: 4}

const (
	qwenName = "qwen1.5-moe"
	seats    = 64   // as the authors'
	longest  = 2048 // tokens of a sequence
	burstAt  = 75.  // seconds, when the rate doubles
	burstEnd = 250. // when the last request comes
	coldBy   = 60.  // until a second replica is there, from 30 to 90 s as the authors say
)

// exempted are the layers that the authors never brown out: the first two and the last two.
var exempted = []int{0, 1, qwen.Layers - 2, qwen.Layers - 1}

// traffic is a kind of requests: the trace's tokens, divided.
type traffic struct {
	name            string
	prompts, answer float64 // what tokens are divided by
	rates           []float64
}

// traffics are ShareGPT's and Alpaca's, by figure 7: the former 4.3 and 13.7 times as long.
var traffics = []traffic{
	{"sharegpt", 1, 1, []float64{0.5, 1, 2, 4, 8, 12}},
	{"alpaca", 4.3, 13.7, []float64{1, 4, 16, 32, 64, 128}},
}

// Check says what is wrong with the settings.
func (s *Brownout) Check() error {
	switch {
	case len(s.Trace) == 0:
		return errors.New("the trace has no requests; name another one")
	case s.Seeds < 0:
		return fmt.Errorf("bursts are run with %d seeds; it must be 0, for no bursts, or more", s.Seeds)
	case !(s.Minutes > 0 && s.Minutes <= 60):
		return fmt.Errorf("each rate is run for %v minutes; it must be above 0, and 60 at most", s.Minutes)
	}
	return nil
}

// lab makes the requests of runs.
type lab struct {
	*Brownout
	tape *requests.Tape
}

// RunBrownout runs all that the suite has.
func RunBrownout(ctx context.Context, s Brownout) (*BrownoutReport, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	const domains = 4
	g, err := routing.New(qwen, routing.Demo(), domains, s.Seed)
	if err != nil {
		return nil, err
	}
	l := &lab{&s, requests.NewTape(g, sim.Replay{PerSecond: 1, Domains: domains, Cycle: time.Hour, Seed: s.Seed})}
	jobs := append(l.throughputs(), l.bursts()...)
	r := &BrownoutReport{Trace: s.Source, Seed: s.Seed, Lengths: l.lengths()}
	var one sync.Mutex
	lines, failed := make([][]BrownoutLine, len(jobs)), error(nil)
	done := 0
	parallel.Each(max(1, s.Threads), 0, len(jobs), func(i int) {
		if ctx.Err() != nil {
			return
		}
		got, err := jobs[i]()
		one.Lock()
		defer one.Unlock()
		lines[i], failed = got, errors.Join(failed, err)
		done++
		s.Progress("%d of %d runs…", done, len(jobs))
	})
	if err := errors.Join(failed, ctx.Err()); err != nil {
		return nil, err
	}
	r.Lines = slices.Concat(lines...)
	r.compare()
	return r, nil
}

// arrivals are requests at a rate that doubles at a time (0: never): a Poisson process, or evenly.
func (l *lab) arrivals(of traffic, rate, doubles, until float64, even bool, seed uint64) (all []bursts.Arrival) {
	r := rand.New(rand.NewPCG(seed, 0xb0))
	for at, i := 0.0, 0; ; i++ {
		now := rate
		if doubles > 0 && at >= doubles {
			now = 2 * rate
		}
		gap := 1 / now
		if !even {
			gap *= r.ExpFloat64()
		}
		if at += gap; at >= until {
			return all
		}
		q := l.Trace[(i+int(seed)*997)%len(l.Trace)]
		q.Context, q.Generated = max(1, int(float64(q.Context)/of.prompts)), max(1, int(float64(q.Generated)/of.answer))
		q.At = time.Duration(at * float64(time.Second))
		all = append(all, bursts.Arrival{At: at, Prompt: q.Context, Answer: q.Generated, Reads: l.tape.Reader(i, q)})
	}
}

// configuration is a way and a threshold.
type configuration struct {
	name      string
	strategy  brownout.Strategy
	way       int
	threshold float64
}

// configurations are those of figures 8 and 9, with the baseline first.
var configurations = []configuration{
	{"none", brownout.Partial, 2, 1}, {"way 2, 0", brownout.Partial, 2, 0}, {"way 4, 0.2", brownout.Partial, 4, 0.2}, {"way 8, 0.4", brownout.Partial, 8, 0.4},
}

func (c configuration) settings(fused bool) bursts.Settings {
	t := int(c.threshold * brownout.One)
	return bursts.Settings{
		Device: bursts.A100s(fused), Shape: qwen, Exempt: exempted, Strategy: c.strategy, Way: c.way, Thresholds: [2]int{t, t},
		SLO: [2]float64{0.25, 0.15}, Seats: seats, Length: longest,
	}
}

func engineName(fused bool) string {
	if fused {
		return "fused"
	}
	return "separate"
}

// throughputs are figures 8 and 9. The shape of arrivals is varied past saturation alone.
func (l *lab) throughputs() (jobs []func() ([]BrownoutLine, error)) {
	for _, of := range traffics {
		for _, fused := range []bool{false, true} {
			for _, rate := range of.rates {
				jobs = append(jobs, l.throughput(of, rate, fused, false)...)
			}
			jobs = append(jobs, l.throughput(of, of.rates[len(of.rates)-1], fused, true)...)
		}
	}
	return jobs
}

// throughput is a point of theirs, for each configuration.
func (l *lab) throughput(of traffic, rate float64, fused, even bool) (jobs []func() ([]BrownoutLine, error)) {
	for _, c := range configurations {
		jobs = append(jobs, func() ([]BrownoutLine, error) {
			until := 60 * l.Minutes
			r, err := bursts.Run(l.arrivals(of, rate, 0, until, even, l.Seed), c.settings(fused), until, 0)
			if err != nil {
				return nil, err
			}
			line := burstLine(r, [2]float64{0.25, 0.15}, 0, until)
			line.Experiment, line.Policy, line.Way, line.Threshold = "throughput", c.name, c.way, c.threshold
			line.Load, line.Engine, line.Rate, line.Seed, line.Arrivals = of.name, engineName(fused), rate, l.Seed, arrivalsName(even)
			return []BrownoutLine{line}, nil
		})
	}
	return jobs
}

func arrivalsName(even bool) string {
	if even {
		return "even"
	}
	return "poisson"
}

// rival is what is done in a burst.
type rival struct {
	name     string
	control  bursts.Control
	strategy brownout.Strategy
	scale    float64
	shed     bool
}

var rivals = []rival{
	{"none", bursts.None, brownout.Partial, 0, false},
	{"scale", bursts.None, brownout.Partial, coldBy, false},
	{"brownout", bursts.Algorithm2, brownout.Partial, 0, false},
	{"steady", bursts.Steady, brownout.Partial, 0, false},
	{"ahead", bursts.Ahead, brownout.Partial, 0, false},
	{"steady+scale", bursts.Steady, brownout.Partial, coldBy, false},
	{"ahead+scale", bursts.Ahead, brownout.Partial, coldBy, false},
	{"drop", bursts.Algorithm2, brownout.Full, 0, false},
	{"shed", bursts.None, brownout.Partial, 0, true},
}

// bursts are figures 11 to 13: by the authors' rates and objectives, and by a rule, 2r = 1.2 times
// what the engine can serve, and objectives a quarter above the P90 at r.
func (l *lab) bursts() (jobs []func() ([]BrownoutLine, error)) {
	for _, of := range traffics {
		for _, fused := range []bool{false, true} {
			for _, regime := range []string{"paper", "rule"} {
				for k := range l.Seeds {
					jobs = append(jobs, func() ([]BrownoutLine, error) { return l.burst(of, fused, regime, l.Seed+uint64(k), rivals) })
				}
			}
		}
	}
	return jobs
}

// burst runs rivals on the same requests.
func (l *lab) burst(of traffic, fused bool, regime string, seed uint64, rivals []rival) (lines []BrownoutLine, err error) {
	rate, slo := map[string]float64{"sharegpt": 0.5, "alpaca": 1}[of.name], [2]float64{0.25, 0.15}
	if regime == "rule" {
		if rate, slo, err = l.rule(of, fused, seed); err != nil {
			return nil, err
		}
	}
	all := l.arrivals(of, rate, burstAt, burstEnd, false, seed)
	for _, v := range rivals {
		s := configurations[0].settings(fused)
		s.Control, s.Strategy, s.Scale, s.Shed, s.Way, s.SLO = v.control, v.strategy, v.scale, v.shed, 8, slo
		r, err := bursts.Run(all, s, burstEnd, 60)
		if err != nil {
			return nil, err
		}
		line := burstLine(r, slo, burstAt, burstEnd)
		line.Experiment, line.Policy, line.Way, line.Regime = "burst", v.name, s.Way, regime
		line.Load, line.Engine, line.Rate, line.Seed, line.Arrivals = of.name, engineName(fused), rate, seed, "poisson"
		lines = append(lines, line)
	}
	return lines, nil
}

// rule is the rate and the objectives that follow from what the engine can serve.
func (l *lab) rule(of traffic, fused bool, seed uint64) (rate float64, slo [2]float64, err error) {
	s := configurations[0].settings(fused)
	full := l.arrivals(of, of.rates[len(of.rates)-1], 0, burstEnd, false, seed)
	r, err := bursts.Run(full, s, burstEnd, 0)
	if err != nil {
		return 0, slo, err
	}
	rate = 0.6 * float64(r.Requests) / r.Elapsed
	if r, err = bursts.Run(l.arrivals(of, rate, 0, burstEnd, false, seed), s, burstEnd, 0); err != nil {
		return 0, slo, err
	}
	for phase := range slo {
		slo[phase] = r.P90(phase) / 0.8
	}
	return rate, slo, nil
}

// lengths tell figure 7: quantiles of tokens.
func (l *lab) lengths() (all []BrownoutLengths) {
	for _, of := range traffics {
		n := BrownoutLengths{Load: of.name}
		for _, a := range l.arrivals(of, 1, 0, float64(min(len(l.Trace), 10_000)), true, l.Seed) {
			p := min(a.Prompt, longest-1)
			n.prompts, n.answers = append(n.prompts, float64(p)), append(n.answers, float64(min(a.Answer, longest-p)))
		}
		for _, q := range []float64{0.1, 0.5, 0.9} {
			n.Prompt, n.Answer = append(n.Prompt, bursts.Quantile(n.prompts, q)), append(n.Answer, bursts.Quantile(n.answers, q))
		}
		n.MeanPrompt, n.MeanAnswer = meanTokens(n.prompts), meanTokens(n.answers)
		all = append(all, n)
	}
	return all
}

func meanTokens(ns []float64) (mean float64) {
	for _, v := range ns {
		mean += v / float64(len(ns))
	}
	return mean
}
