package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/splitmix"
)

// ErrHours says that a file has how many requests came by the hour, and not the requests.
var ErrHours = errors.New("it has requests by the hour, without tokens; name a trace whose requests lend theirs, with --lengths")

// hourColumns are those of BurstGPT's requests by the hour; others are passed over.
var hourColumns = []string{"hour", "requests"}

// mostHours is a year, so that times can be told.
const mostHours = 366 * 24

// Hours are how many requests came in each hour.
type Hours []int

func isHours(line string) bool {
	return slices.Contains(names(line), hourColumns[0]) && slices.Contains(names(line), hourColumns[1])
}

// ReadHours reads requests by the hour: CSV with the columns hour and requests, and a line
// for each hour.
func ReadHours(from io.Reader) (h Hours, err error) {
	lines, err := open(from)
	if err != nil {
		return nil, err
	}
	at, err := header(lines.Text(), hourColumns)
	if err != nil {
		return nil, wrong(1, err)
	}
	var first, sum int
	err = rest(lines, func(text string) error {
		hour, requests, err := hourly(strings.Split(text, ","), at)
		if len(h) == 0 {
			first = hour
		}
		switch {
		case err != nil:
			return err
		case hour != first+len(h):
			return fmt.Errorf("it is of hour %d, and %d is next; hours ascend by one, and one without requests has 0", hour, first+len(h))
		case len(h) == mostHours:
			return fmt.Errorf("there are more than %d hours; cut the trace", mostHours)
		}
		if sum += requests; sum > mostRequests {
			return fmt.Errorf("a trace has at most %d requests; cut it", mostRequests)
		}
		h = append(h, requests)
		return nil
	})
	if err == nil && sum == 0 {
		err = errors.New("the trace has no hour with requests; name another one")
	}
	return h, err
}

func hourly(fields []string, at []int) (hour, requests int, err error) {
	for i, to := range []*int{&hour, &requests} {
		if at[i] >= len(fields) {
			return 0, 0, fmt.Errorf("there is no %s; it has %d fields", hourColumns[i], len(fields))
		}
		text := strings.TrimSpace(fields[at[i]])
		if *to, err = strconv.Atoi(text); err != nil || *to < 0 || *to > mostRequests {
			return 0, 0, fmt.Errorf("%s is %q; it must be a whole number from 0 to %d", hourColumns[i], text, mostRequests)
		}
	}
	return hour, requests, nil
}

// Requests are drawn: in each hour a Poisson process of its rate, in steps from hour to
// hour. Tokens are those of lengths in their order, from the first one again after the last.
// Times count from the first request. Each seed has its requests; without lengths there are
// none.
func (h Hours) Requests(lengths []Request, seed uint64) (rs []Request) {
	if len(lengths) == 0 {
		return nil
	}
	state := splitmix.Mix(seed)
	for i, n := range h {
		begin := time.Duration(i) * time.Hour
		for at := pause(&state, n); at < time.Hour; at += pause(&state, n) {
			r := lengths[len(rs)%len(lengths)]
			r.At = begin + at
			rs = append(rs, r)
		}
	}
	for i := len(rs) - 1; i >= 0; i-- {
		rs[i].At -= rs[0].At
	}
	return rs
}

// pause is drawn from the exponential distribution of so many requests an hour; an hour
// where there are none.
func pause(state *uint64, requests int) time.Duration {
	if requests == 0 {
		return time.Hour
	}
	hours := -math.Log1p(-splitmix.Unit(splitmix.Next(state))) / float64(requests)
	return time.Duration(min(1, hours) * float64(time.Hour))
}
