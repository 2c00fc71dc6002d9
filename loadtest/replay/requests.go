package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim/trace"
)

// Mix makes requests from real texts.
type Mix struct {
	// Texts are token ids of each domain.
	Texts [][]uint32
	// Longest is the most tokens of a prompt and its answer together.
	Longest int
	Seed    uint64
}

func (m *Mix) check() error {
	if len(m.Texts) == 0 || m.Longest < 2 {
		return fmt.Errorf("there are %d domains of text for requests of at most %d tokens; it takes one of each at least, and 2 tokens", len(m.Texts), m.Longest)
	}
	for i, t := range m.Texts {
		if len(t) < m.Longest {
			return fmt.Errorf("domain %d has %d tokens of text; it must have %d at least", i, len(t), m.Longest)
		}
	}
	return nil
}

// request is one of a domain: a piece of its text, by the request's number alone.
func (m *Mix) request(number, domain, prompt, answer int) Request {
	r := rand.New(rand.NewPCG(m.Seed, uint64(number)))
	answer = min(max(1, answer), m.Longest-1)
	prompt = min(max(1, prompt), m.Longest-answer)
	text := m.Texts[domain]
	from := r.IntN(len(text) - prompt + 1)
	return Request{Domain: domain, IDs: text[from : from+prompt], Tokens: answer, Seed: r.Uint32()}
}

// Scale is how a trace is made small enough for one machine.
type Scale struct {
	// Every says that each such request is kept, and Shrink divides lengths.
	Every, Shrink int
	// Speed is how many times faster than the trace time runs.
	Speed float64
}

// String says it for reports.
func (s Scale) String() string {
	return fmt.Sprintf("one of %d requests, lengths / %d, time x %g", s.Every, s.Shrink, s.Speed)
}

// Replay are the requests of a trace. Domains follow each other over its span; near
// a border requests are of either.
func (m *Mix) Replay(rs []trace.Request, s Scale) ([]Request, error) {
	if s.Every < 1 || s.Shrink < 1 || !(s.Speed > 0) {
		return nil, fmt.Errorf("the scale is %v; all of it must be above 0", s)
	}
	if len(rs) == 0 {
		return nil, errors.New("the slice of the trace has no requests")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	span := rs[len(rs)-1].At + 1
	var out []Request
	for i := 0; i < len(rs); i += s.Every {
		q := m.request(i, m.domain(i, float64(rs[i].At)/float64(span)), rs[i].Context/s.Shrink, rs[i].Generated/s.Shrink)
		q.At = time.Duration(float64(rs[i].At) / s.Speed)
		out = append(out, q)
	}
	return out, nil
}

// blur is how far domains reach over their borders, in parts of their time.
const blur = 0.5

func (m *Mix) domain(number int, at float64) int {
	r := rand.New(rand.NewPCG(^m.Seed, uint64(number)))
	d := int(at*float64(len(m.Texts)) + blur*(r.Float64()-0.5))
	return min(max(0, d), len(m.Texts)-1)
}

// Phases are requests at even intervals, so long of each domain of order, with a
// pause behind each.
func (m *Mix) Phases(order []int, long, pause, interval time.Duration, prompt, answer int) ([]Request, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if interval <= 0 || long < interval || pause < 0 {
		return nil, fmt.Errorf("phases last %v with a request each %v and pauses of %v; they must be longer than an interval, which is above 0, and pauses 0 or above", long, interval, pause)
	}
	var out []Request
	for i, d := range order {
		if d < 0 || d >= len(m.Texts) {
			return nil, fmt.Errorf("phase %d is of domain %d; there are %d", i, d, len(m.Texts))
		}
		for at := time.Duration(0); at < long; at += interval {
			q := m.request(len(out), d, prompt, answer)
			q.At = time.Duration(i)*(long+pause) + at
			out = append(out, q)
		}
	}
	return out, nil
}
