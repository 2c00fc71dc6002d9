package bursts

import (
	"cmp"
	"errors"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// sequence is a request with a seat, or one that waits.
type sequence struct {
	Arrival
	done  int // rows that are computed
	first float64
	last  float64
}

// prompted is a step with prompts: their rows, and by layer and expert.
type prompted struct {
	rows  int
	loads []uint32
}

// engine is a run on its way.
type engine struct {
	Settings
	splits  splits
	now     float64
	next    int // of arrivals
	all     []Arrival
	waiting []*sequence
	seated  []*sequence
	loads   [2][]uint32
	latest  []uint32 // of the last step without prompts
	prompts int

	two        [2]*brownout.Controller
	ahead      [2]*brownout.Predictive
	thresholds [2]int
	advanced   float64
	missing    [2]int     // steps of a phase in a row that missed the SLO
	missed     float64    // when that were many first; 0 is never
	prompted   []prompted // the last steps with prompts
	late       bool       // the last step missed that of decode
	result     Result
}

const (
	// sustained are the steps in a row that would be above the SLO without a brownout by which an operator,
	// or a scaler, sees that there is too much to do.
	sustained = 10
	// remembered are the prompts that tell how large the next one may be.
	remembered = 16
)

// advance is how often controllers decide, in seconds.
const advance = 0.5

// Run serves requests, which are in the order of their times, until a time, and then what has a
// seat or waits for at most so long.
func Run(arrivals []Arrival, s Settings, until, drain float64) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if len(arrivals) == 0 {
		return nil, errors.New("no request arrives")
	}
	e := &engine{Settings: s, splits: splits{Settings: s}, all: arrivals, thresholds: s.Thresholds}
	for i := range e.loads {
		e.loads[i] = make([]uint32, s.Shape.Layers*s.Shape.Experts)
	}
	if err := e.controllers(); err != nil {
		return nil, err
	}
	for e.now < until+drain && e.step(until) {
	}
	if e.copies() > 1 {
		e.result.Scaled = e.missed + e.Scale
	}
	e.result.Elapsed = e.now
	e.result.Unfinished = len(e.seated) + len(e.waiting)
	return &e.result, nil
}

func (e *engine) controllers() (err error) {
	for i := range e.two {
		rule := brownout.Paper(e.SLO[i])
		if e.Control == Steady {
			rule = brownout.Steady(e.SLO[i])
		}
		if e.two[i], err = brownout.NewController(rule, 0); err != nil {
			return err
		}
		d := e.Device
		costs := brownout.Costs{Fixed: d.Fixed, Access: d.Call + d.Read}
		if d.Fused {
			costs.Fixed, costs.Access = d.Fixed+float64(e.Shape.Layers)*d.Call, d.Read
		}
		if i == Prefill {
			costs.Row = d.Prompt
		}
		if e.ahead[i], err = brownout.NewPredictive(brownout.AheadOf(e.SLO[i]), costs); err != nil {
			return err
		}
	}
	return nil
}

// step admits, computes and settles one step; false when nothing is left to do.
func (e *engine) step(until float64) bool {
	e.arrive()
	e.control()
	if len(e.seated)+len(e.waiting) == 0 {
		if e.next == len(e.all) || e.all[e.next].At > until {
			return false
		}
		e.now = min(e.all[e.next].At, e.now+advance)
		return true
	}
	e.load()
	s := e.splits.step(&e.loads, e.prompts, e.thresholds, e.copies())
	e.observe(s)
	e.now += s.seconds
	e.settle(s)
	return true
}

// copies are the replicas of experts.
func (e *engine) copies() float64 {
	if e.Scale > 0 && e.missed > 0 && e.now >= e.missed+e.Scale {
		return 2
	}
	return 1
}

func (e *engine) arrive() {
	for ; e.next < len(e.all) && e.all[e.next].At <= e.now; e.next++ {
		if e.Shed && e.late {
			e.result.Refused++
			continue
		}
		a := e.all[e.next]
		a.Prompt = min(max(1, a.Prompt), e.Length-1)
		a.Answer = min(max(1, a.Answer), e.Length-a.Prompt)
		e.waiting = append(e.waiting, &sequence{Arrival: a})
	}
}

// load makes a step: a row of each sequence that decodes, and the prompts of those that get a
// seat, as many tokens as one sequence may have.
func (e *engine) load() {
	for i := range e.loads {
		clear(e.loads[i])
	}
	e.prompts = 0
	for _, s := range e.seated {
		s.Reads.Add(e.loads[Decode], s.done, 1)
	}
	n := 0
	for ; n < len(e.waiting) && len(e.seated)+n < e.Seats; n++ {
		s := e.waiting[n]
		if e.prompts > 0 && e.prompts+s.Prompt > e.Length {
			break
		}
		s.Reads.Add(e.loads[Prefill], 0, s.Prompt)
		e.prompts += s.Prompt
	}
	e.seated = append(e.seated, e.waiting[:n]...)
	e.waiting = e.waiting[n:]
}

// control lets controllers decide, twice a second.
func (e *engine) control() {
	if e.now < e.advanced+advance || e.Control == None {
		return
	}
	e.advanced = e.now
	busy := len(e.seated)+len(e.waiting) > 0
	for i := range e.thresholds {
		before := e.thresholds[i]
		if e.Control != Ahead {
			e.thresholds[i] = e.two[i].Advance(e.now, busy).Threshold
		} else {
			e.thresholds[i] = e.ahead[i].Advance(e.now, e.demand(i)...).Threshold
		}
		e.result.moved(e.now, i, before, e.thresholds[i])
	}
}

// demand is what a phase has before it.
func (e *engine) demand(phase int) []brownout.Demand {
	if len(e.seated)+len(e.waiting) == 0 {
		return nil
	}
	loads := [2][]uint32{Decode: e.latest}
	if phase == Decode {
		return []brownout.Demand{{Steps: 1 / e.copies(), Rows: len(e.seated), Curve: e.splits.curve(loads, phase, e.thresholds)}}
	}
	if len(e.prompted) == 0 {
		return nil
	}
	// The next prompt may not be there yet, and be as long as the longest of late.
	longest := slices.MaxFunc(e.prompted, func(a, b prompted) int { return cmp.Compare(a.rows, b.rows) })
	rows := max(longest.rows, e.coming())
	loads[Prefill] = longest.loads
	curve := e.splits.curve(loads, phase, e.thresholds).Grown(float64(rows)/float64(longest.rows), float64(e.Shape.Layers*e.Shape.Experts))
	return []brownout.Demand{{Steps: 1 / e.copies(), Rows: rows, Curve: curve}}
}

// coming are the rows of prompts in the next step, as far as they wait.
func (e *engine) coming() (rows int) {
	for i, s := range e.waiting {
		if len(e.seated)+i >= e.Seats || rows > 0 && rows+s.Prompt > e.Length {
			break
		}
		rows += s.Prompt
	}
	return rows
}

// observe tells controllers what a step takes.
func (e *engine) observe(s spent) {
	phase, rows := Decode, len(e.seated)
	if e.prompts > 0 {
		phase, rows = Prefill, e.prompts
		e.prompted = append(e.prompted, prompted{rows, slices.Clone(e.loads[Prefill])})
		e.prompted = e.prompted[max(0, len(e.prompted)-remembered):]
	} else {
		e.latest = append(e.latest[:0], e.loads[Decode]...)
	}
	e.ahead[phase].Observe(rows, float64(s.after), s.seconds)
	for range max(1, len(e.seated)) { // a sample a token, as the authors have it
		e.two[phase].Observe(e.now+s.seconds, s.seconds)
	}
	e.late = phase == Decode && s.seconds > e.SLO[Decode] || phase == Prefill && e.late
	if e.missing[phase]++; e.demanded(s) <= e.SLO[phase] {
		e.missing[phase] = 0
	}
	if e.missed == 0 && e.missing[phase] == sustained {
		e.missed = cmp.Or(e.now, 1e-9)
	}
}

// demanded is what a step would have taken without a brownout, as far as accesses say it: a scaler goes by
// that, or what a brownout spares would never return.
func (e *engine) demanded(s spent) float64 {
	each := e.Device.Read
	if !e.Device.Fused {
		each += e.Device.Call
	}
	return s.seconds + float64(s.before-s.after)*each/e.copies()
}

// settle takes in what a step made.
func (e *engine) settle(s spent) {
	r := &e.result
	r.took(e.now, s, e.prompts, len(e.seated), e.thresholds, e.SLO)
	kept := e.seated[:0]
	for _, q := range e.seated {
		if q.done == 0 {
			q.done, q.first = q.Prompt, e.now
			r.TTFT = append(r.TTFT, e.now-q.At)
		} else {
			q.done++
			r.token(e.now-q.last, e.SLO[Decode])
		}
		q.last = e.now
		if q.done < q.Prompt+q.Answer-1 {
			kept = append(kept, q)
			continue
		}
		r.Requests++
		if q.Answer > 1 {
			r.TPOT = append(r.TPOT, (q.last-q.first)/float64(q.Answer-1))
		}
	}
	clear(e.seated[len(kept):])
	e.seated = kept
}
