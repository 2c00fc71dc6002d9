package quality

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/recording"
)

// text is a sequence that was held out.
type text struct {
	domain int
	ids    []uint32
}

// heldOut are the sequences of each domain that a distillation of the same seed measures by:
// the last three tenths, in its order, each up to so many tokens.
func heldOut(r *recording.Recording, seed uint64, most int) [][]text {
	domains := make([][]text, len(r.Domains))
	first := r.Sequences()
	for i := range len(first) - 1 {
		d := r.Row(first[i]).Domain
		t := text{domain: d}
		for row := first[i]; row < min(first[i+1], first[i]+most); row++ {
			t.ids = append(t.ids, r.Row(row).Token)
		}
		domains[d] = append(domains[d], t)
	}
	order := rand.New(rand.NewPCG(seed, 3))
	for d, list := range domains {
		order.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		domains[d] = list[len(list)*7/10:]
	}
	return domains
}

// texts are the beginnings of some of each domain, in turn, so that batches mix domains.
func texts(domains [][]text, each, length int) (list []text, err error) {
	for i := range each {
		for _, d := range domains {
			if i < len(d) && len(d[i].ids) > 1 {
				list = append(list, text{d[i].domain, d[i].ids[:min(length, len(d[i].ids))]})
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no sequence of the recording was held out; record more of each domain")
	}
	return list, nil
}

// options is how many continuations a choice has that is made of texts.
const options = 4

// choice is a beginning with continuations, one of which is the true one.
type choice struct {
	whole  [][]uint32
	from   []int     // where each continuation begins
	weight []float64 // by which what it takes is divided
	right  int
}

func (c choice) rows() (most int) {
	for _, ids := range c.whole {
		most = max(most, len(ids))
	}
	return most
}

// choices are made of texts that are long enough: a text up to a quarter of a length before its end, which is one, two, three
// and more lengths from the beginning, and that quarter of it and of three others of its domain.
func choices(domains [][]text, length, most int) (list []choice) {
	const part = 4
	tail := length / part
	for end, longest := length, longestOf(domains); end <= longest; end += length {
		for i := range longestDomain(domains) {
			for _, d := range domains {
				if i+options > len(d) || len(list) == most {
					continue
				}
				if c, ok := choiceOf(d[i:i+options], end, tail); ok {
					list = append(list, c)
				}
			}
		}
	}
	return list
}

func longestDomain(domains [][]text) (n int) {
	for _, d := range domains {
		n = max(n, len(d))
	}
	return n
}

func longestOf(domains [][]text) (tokens int) {
	for _, d := range domains {
		for _, t := range d {
			tokens = max(tokens, len(t.ids))
		}
	}
	return tokens
}

func choiceOf(of []text, end, tail int) (c choice, ok bool) {
	begin := of[0].ids
	for _, t := range of {
		if len(t.ids) < end {
			return c, false
		}
		c.whole = append(c.whole, slices.Concat(begin[:end-tail], t.ids[end-tail:end]))
		c.from, c.weight = append(c.from, end-tail), append(c.weight, 1)
	}
	return c, true
}
