package requests

import (
	"fmt"
	"math"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Settings are how requests are served, whatever the policy.
type Settings struct {
	Batching batching.Policy
	// MaxSequences are in batches at most; more requests wait.
	MaxSequences int
	// Rate is what the rate of arrivals is multiplied with.
	Rate float64
	// Idle puts pauses between arrivals.
	Idle Idle
	// Drain is how long the run goes on behind the last arrival. What has not ended then is unfinished.
	Drain time.Duration
	SLO   SLO
}

// Idle are pauses without arrivals: the last For of every Every, in the run's time. All
// requests come, those behind a pause later. The zero value is none.
type Idle struct{ Every, For time.Duration }

// SLO is what a good request keeps.
type SLO struct {
	TTFT time.Duration // until the first token, from the arrival on
	TPOT time.Duration // a further token, in the mean of the request
}

// Goal is the share of requests that has to keep the SLO where capacity is told: DistServe's
// (Zhong et al., OSDI 2024, section 6.1) 90 %.
const Goal = 0.9

// Defaults are the settings that `switchyard up` has for a model of this shape: its flags'
// defaults, and what attention takes by itself. A model whose layer has more than 32 MiB
// decodes in one batch (MinRows), as all of the arena's shapes do. The SLO is MLPerf
// Inference v4.1's for Mixtral-8x7B on a server.
func Defaults(s routing.Shape) Settings {
	const (
		rows = 256 // --max-rows
		few  = 4   // an expert's rows for which reading its weights takes as long (services/attention/engine, minPrefill)
	)
	return Settings{
		Batching: batching.Policy{
			Microbatches: 1, MinRows: rows, MaxRows: rows, MaxSeconds: 0.25, MinPrefill: few * max(1, s.Experts/max(1, s.TopK)),
		},
		MaxSequences: 256, Rate: 1, Drain: time.Minute,
		SLO: SLO{TTFT: 2 * time.Second, TPOT: 200 * time.Millisecond},
	}
}

// The bounds of settings.
const (
	mostRate      = 1e6
	mostRows      = 1 << 16
	mostSequences = 1 << 16
	longest       = 24 * time.Hour
)

// Check says what is wrong with the settings.
func (s Settings) Check() error {
	switch b := s.Batching; {
	case b.MaxRows < 1 || b.MaxRows > mostRows:
		return fmt.Errorf("a batch has %d rows at most; it must be 1 to %d", b.MaxRows, mostRows)
	case !(b.MaxSeconds >= 0) || math.IsInf(b.MaxSeconds, 0):
		return fmt.Errorf("a batch with prompts may take %v s; it must be 0, for no bound, or above", b.MaxSeconds)
	case s.MaxSequences < 1 || s.MaxSequences > mostSequences:
		return fmt.Errorf("%d sequences run at most; it must be 1 to %d", s.MaxSequences, mostSequences)
	case !(s.Rate > 0 && s.Rate <= mostRate):
		return fmt.Errorf("arrivals are %v times as many a second; it must be above 0, and %v at most", s.Rate, float64(mostRate))
	case s.Drain < 0 || s.Drain > longest:
		return fmt.Errorf("the run goes on for %v behind the last arrival; it must be 0 to %v", s.Drain, longest)
	case s.SLO.TTFT <= 0 || s.SLO.TPOT <= 0:
		return fmt.Errorf("the SLO is %v to the first token and %v for each further one; both must be above 0", s.SLO.TTFT, s.SLO.TPOT)
	}
	return s.Idle.check()
}

func (i Idle) check() error {
	if i != (Idle{}) && (i.For <= 0 || i.For >= i.Every || i.Every > longest) {
		return fmt.Errorf("arrivals pause for %v of every %v; the pause must be above 0 and shorter than what it is of, and that %v at most", i.For, i.Every, longest)
	}
	return nil
}

// shift is when a request arrives that would at a time, were there no pauses.
func (i Idle) shift(at float64) float64 {
	if i.Every == 0 {
		return at
	}
	busy := (i.Every - i.For).Seconds()
	return at + math.Floor(at/busy)*i.For.Seconds()
}
