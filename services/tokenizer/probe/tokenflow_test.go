package probe

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// patient is a tokenFlow on a clock that the test moves.
type patient struct {
	*tokenFlow
	t    *testing.T
	now  time.Time
	deaf bool // its own word does not come back
}

func newPatient(t *testing.T) *patient {
	return &patient{tokenFlow: &tokenFlow{self: "t", every: 15 * time.Second, least: leastPatience}, t: t, now: time.Unix(1e9, 0)}
}

// after moves the clock.
func (p *patient) after(seconds float64) { p.now = p.now.Add(time.Duration(seconds * 1e9)) }

// sees has members say what they have done: chunks of a tokenizer and steps of an
// attention replica, whose steps may take some seconds.
func (p *patient) sees(chunks, steps, stepSeconds float64) {
	losses := float64(p.losses)
	if p.deaf {
		losses--
	}
	p.look([]*pb.Member{
		{Id: "t", Service: "tokenizer", Ready: true, Stats: map[string]float64{"chunks_total": chunks, "steps_total": 7 * float64(p.now.Unix()), StatLosses: losses}},
		{Id: "a", Service: "attention", Ready: true, Stats: map[string]float64{"steps_total": steps, members.StepSeconds: stepSeconds}},
	}, true, p.now)
}

// asks has a canary under way for want of a token since the last one.
func (p *patient) asks(stepSeconds float64) {
	p.t.Helper()
	p.sees(0, 0, stepSeconds)
	p.flows(p.now)
	p.after(15)
	p.is(true, "")
	p.sent("c", p.now)
}

// is wants canaries to be due or not, and readiness to be, or to lack something.
func (p *patient) is(due bool, lack string) {
	p.t.Helper()
	if got := p.due(p.now); got != due {
		p.t.Errorf("due: %v", got)
	}
	err := p.ready(p.now)
	if (err == nil) != (lack == "") || err != nil && !strings.Contains(err.Error(), lack) {
		p.t.Errorf("%v, want %q", err, lack)
	}
}

func TestTokenFlow(t *testing.T) {
	for name, play := range map[string]func(*patient){
		"a canary is answered": func(p *patient) {
			p.sees(0, 0, 0)
			p.is(true, "no token has flowed for 0s, though one was asked for")
			p.sent("c", p.now)
			p.is(false, "request c waits since 0s: no tokenizer has taken it in")
			p.waits("other", uncounted)
			p.waits("c", unclaimed)
			p.after(1)
			if _, ours := p.answered("other", p.now); ours { // by a log of before, or to somebody else
				p.t.Error("another canary counts")
			}
			p.is(false, "no attention replica has begun it")
			p.answered("c", p.now)
			p.is(false, "")
			p.after(14.9)
			p.is(false, "")
			p.after(0.1)
			p.is(true, "")
		},
		"a canary is not answered": func(p *patient) {
			p.asks(0)
			p.after(10)
			p.is(false, "")
			p.after(0.1)
			p.is(false, "no token has flowed for 10.1s, though one was asked for: request c waits since 10.1s: no tokenizer has taken it in")
			p.after(49.9)
			p.is(true, "no token has flowed for 1m0s")
			p.sent("d", p.now)
			p.answered("d", p.now)
			p.is(false, "")
		},
		"a canary comes to nothing": func(p *patient) {
			p.sees(0, 0, 0)
			p.is(true, "no token has flowed")
			p.sent("c", p.now)
			p.failed("other", "nobody", p.now)
			p.failed("c", "it ended as error: layer 3 is gone", p.now)
			p.is(false, "request c: it ended as error: layer 3 is gone")
			p.after(2)
			p.is(true, "layer 3 is gone")
		},
		"others' tokens show it": func(p *patient) {
			p.sees(100, 100, 0)
			p.is(true, "no token has flowed") // that was before
			p.sent("c", p.now)
			p.sees(101, 100, 0)
			p.is(false, "")
			for range 100 {
				p.after(14)
				p.sees(101+float64(p.now.Unix()), 100, 0)
				p.is(false, "")
			}
		},
		"and long prefills": func(p *patient) {
			p.sees(0, 0, 0)
			for i := range 100 {
				p.after(14)
				p.sees(0, float64(i+1), 0)
				p.is(false, "")
			}
		},
		"nothing is shown by nonsense": func(p *patient) {
			p.sees(0, 0, 0)
			p.sees(math.NaN(), math.Inf(-1), math.NaN())
			p.sees(0, 0, -1)
			p.is(true, "no token has flowed")
		},
		"a stage goes and comes back": func(p *patient) {
			p.sees(0, 0, 0)
			p.flows(p.now)
			p.look(nil, false, p.now)
			p.is(true, "no token has flowed")
			p.sees(5, 0, 0) // of before
			p.sent("c", p.now)
			p.is(false, "request c waits")
			p.answered("c", p.now)
			p.is(false, "")
		},
		"what was done before a loss is heard late": func(p *patient) {
			p.sees(0, 0, 0)
			p.flows(p.now)
			p.look(nil, false, p.now)
			p.deaf = true
			for i := range 5 {
				p.after(2)
				p.sees(0, float64(i), 0)
				p.is(true, "no token has flowed")
			}
			p.deaf = false
			p.sees(0, 5, 0) // with the own word
			p.sees(0, 6, 0) // behind it: of between the loss and that
			p.is(true, "no token has flowed")
			p.sees(0, 6, 0)
			p.is(true, "no token has flowed")
			p.sees(0, 7, 0)
			p.is(false, "")
		},
		"who says nothing new has done nothing": func(p *patient) {
			still := []*pb.Member{{Id: "t", Stats: map[string]float64{}}, {Id: "a", Service: "attention", Stats: map[string]float64{"steps_total": 3}}}
			for range 3 {
				p.look(still, true, p.now)
				p.is(true, "no token has flowed")
			}
		},
		"slow layers have longer": func(p *patient) {
			p.asks(20)
			p.after(50)
			p.is(false, "")
			p.after(0.1)
			p.is(false, "request c waits since 50.1s")
		},
		"no canaries are wanted": func(p *patient) {
			p.every = 0
			p.sees(0, 0, 0)
			p.is(false, "")
			p.after(1e6)
			p.is(false, "")
		},
	} {
		t.Run(name, func(t *testing.T) { play(newPatient(t)) })
	}
}
