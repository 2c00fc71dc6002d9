// Package trace reads traces of requests: as Azure publishes them
// (github.com/Azure/AzurePublicDataset), CSV files with the columns TIMESTAMP,
// ContextTokens and GeneratedTokens; and as Mooncake does, a JSON object a line. Of
// requests by the hour, as there are of BurstGPT, it draws some.
package trace

import (
	"sort"
	"time"
)

// Request is a request of a trace.
type Request struct {
	At        time.Duration // since the trace's first request
	Context   int           // tokens of its prompt
	Generated int           // tokens of its answer
}

// Tokens are all tokens of the request.
func (r Request) Tokens() int { return r.Context + r.Generated }

// Slice are the requests from one time up to, and without, another, with their
// times counted from the first of these.
func Slice(rs []Request, from, to time.Duration) []Request {
	first := sort.Search(len(rs), func(i int) bool { return rs[i].At >= from })
	end := sort.Search(len(rs), func(i int) bool { return rs[i].At >= to })
	var cut []Request
	for _, r := range rs[first:max(first, end)] {
		r.At -= from
		cut = append(cut, r)
	}
	return cut
}

// Peak are the requests of the time of this length that has most tokens, the
// earliest of several: all of a trace that is no longer. It begins with a request.
func Peak(rs []Request, length time.Duration) []Request {
	if len(rs) == 0 {
		return nil
	}
	at := PeakAt(rs, length)
	return Slice(rs, at, at+length)
}

// PeakAt is when the time that Peak takes begins.
func PeakAt(rs []Request, length time.Duration) (at time.Duration) {
	most, sum, end := -1, 0, 0
	for _, r := range rs {
		for end < len(rs) && rs[end].At-r.At < length {
			sum += rs[end].Tokens()
			end++
		}
		if sum > most {
			at, most = r.At, sum
		}
		sum -= r.Tokens()
	}
	return at
}
