package check

import (
	"fmt"
	"slices"
	"time"
)

// Whole is how a request ends that has all its tokens.
const Whole = "length"

// What can be wrong with a stream.
const (
	Lost       = "lost"       // an index never came, or the end
	Duplicated = "duplicated" // an index came with other bytes
	Changed    = "changed"    // a chunk is not that of the reference run
	WrongEnd   = "wrong end"  // the request ended as it may not
	EndedTwice = "ended twice"
	Garbage    = "garbage" // no chunk of this request
)

// Violation is something wrong.
type Violation struct {
	At      time.Duration `json:"at"`
	Request string        `json:"request"`
	What    string        `json:"what"`
	Detail  string        `json:"detail"`
}

// Stall is a time without a new index.
type Stall struct {
	Request string        `json:"request"`
	From    time.Duration `json:"from"`
	To      time.Duration `json:"to"`
	// First is that before the first one.
	First bool `json:"first,omitempty"`
}

// Length is how long it took.
func (s Stall) Length() time.Duration { return s.To - s.From }

// Expect is what a stream has to bring.
type Expect struct {
	Request string
	// Want are the contents of all chunks when nothing goes wrong.
	Want []string
	// Ends are how it may end beside Whole.
	Ends []string
	// From is the first index that was asked for.
	From int
	// Mixed says that chunks come of two releases, of which the later may tell more.
	Mixed bool
	// Deadline is the moment before which it may not end for its deadline; 0: none.
	Deadline time.Duration
}

const (
	// Late is how a request ends whose deadline has passed.
	Late = "deadline_exceeded"
	// early is how much before its deadline one may end: clocks of hosts differ a little.
	early = time.Second
)

// Stream is what a reader has got of a request.
type Stream struct {
	expect Expect
	bodies map[int]string
	before map[int]string // what an earlier reader has got
	next   int            // the first index that has not come
	end    int            // the last chunk's index; one less than the first for a refusal
	ended  string         // how; "" before the last chunk came
	last   time.Duration  // when the newest index came

	stalls     []Stall
	violations []Violation
	repeats    int
	overtaken  int // chunks that came after one of a higher index
	highest    int
}

// New begins a stream at a moment.
func New(e Expect, at time.Duration) *Stream {
	return &Stream{expect: e, bodies: map[int]string{}, next: e.From, last: at, highest: e.From - 1}
}

// Again begins another reading of the same request, from its beginning: it has to
// bring the same bytes.
func (s *Stream) Again(at time.Duration) *Stream {
	again := New(s.expect, at)
	again.before = s.bodies
	return again
}

// Want replaces what the stream has to bring: the reference run learns it.
func (s *Stream) Want(contents []string) { s.expect.Want = contents }

// Next is the first index that has not come.
func (s *Stream) Next() int { return s.next }

// Began reports whether any chunk of the answer came: a refused request has none.
func (s *Stream) Began() bool { return len(s.bodies) > 0 }

// Last is when the newest index came.
func (s *Stream) Last() time.Duration { return s.last }

// Done reports whether everything up to the end is there.
func (s *Stream) Done() bool { return s.ended != "" && s.next > s.end }

// Ended is how the request ended; "" before that.
func (s *Stream) Ended() string { return s.ended }

// Repeats are the chunks that came again; Overtaken those that came after a later one.
func (s *Stream) Repeats() int { return s.repeats }

// Overtaken are the chunks that came first after one of a higher index.
func (s *Stream) Overtaken() int { return s.overtaken }

// Stalls are the pauses that took at least so long.
func (s *Stream) Stalls() []Stall { return s.stalls }

// Violations are what was wrong.
func (s *Stream) Violations() []Violation { return s.violations }

// Fail notes what is wrong and no chunk says.
func (s *Stream) Fail(at time.Duration, what, format string, args ...any) {
	s.violations = append(s.violations, Violation{At: at, Request: s.expect.Request, What: what, Detail: fmt.Sprintf(format, args...)})
}

// Close ends the stream: what has not come by now never will.
func (s *Stream) Close(at time.Duration) {
	if !s.Done() {
		s.Fail(at, Lost, "index %d has not come, and the newest came %v ago", s.next, (at - s.last).Round(time.Millisecond))
	}
}

// Take takes a chunk in.
func (s *Stream) Take(at time.Duration, body []byte) {
	c, err := Decode(body)
	switch {
	case err != nil:
		s.Fail(at, Garbage, "%v: %.80q", err, body)
	case c.RequestID != s.expect.Request:
		s.Fail(at, Garbage, "a chunk of %q", c.RequestID)
	case c.Index < 0:
		s.refused(at, &c)
	default:
		s.chunk(at, &c, s.stays(&c, body))
	}
}

// stays is what of a chunk is the same whenever it comes: its bytes, or of two releases its content.
func (s *Stream) stays(c *Chunk, body []byte) string {
	if s.expect.Mixed {
		return s.Content(c)
	}
	return string(body)
}

// Content is what has to be the reference run's.
func (s *Stream) Content(c *Chunk) string {
	if s.expect.Mixed {
		return c.Common()
	}
	return c.Content()
}

func (s *Stream) refused(at time.Duration, c *Chunk) {
	if s.ended != "" {
		s.Fail(at, EndedTwice, "%s after %s", c.Ended(), s.ended)
		return
	}
	s.end, s.ended = s.next-1, c.Ended()
	s.checkEnd(at, c)
}

func (s *Stream) chunk(at time.Duration, c *Chunk, body string) {
	if before, again := s.bodies[c.Index]; again {
		if s.repeats++; before != body {
			s.Fail(at, Duplicated, "index %d came as %s and as %s", c.Index, before, body)
		}
		return
	}
	if before, known := s.before[c.Index]; known && before != body {
		s.Fail(at, Duplicated, "index %d came as %s, and later as %s", c.Index, before, body)
	}
	s.bodies[c.Index] = body
	s.progress(at, c.Index)
	if c.Ended() != "" {
		s.finish(at, c)
	} else {
		s.compare(at, c)
	}
	if s.ended != "" && s.highest > s.end {
		s.Fail(at, EndedTwice, "index %d lies behind the end at %d", s.highest, s.end)
	}
}

// noticed is the shortest pause that is kept.
const noticed = 100 * time.Millisecond

func (s *Stream) progress(at time.Duration, index int) {
	if index < s.highest {
		s.overtaken++
	}
	if at-s.last >= noticed {
		s.stalls = append(s.stalls, Stall{Request: s.expect.Request, From: s.last, To: at, First: len(s.bodies) == 1})
	}
	s.last, s.highest = at, max(s.highest, index)
	for _, ok := s.bodies[s.next]; ok; _, ok = s.bodies[s.next] {
		s.next++
	}
}

// compare wants a chunk to be the reference run's.
func (s *Stream) compare(at time.Duration, c *Chunk) {
	if c.Index >= len(s.expect.Want) {
		s.Fail(at, Changed, "index %d: the reference run has %d", c.Index, len(s.expect.Want))
	} else if got, want := s.Content(c), s.expect.Want[c.Index]; got != want {
		s.Fail(at, Changed, "index %d is %s; the reference run's is %s", c.Index, got, want)
	}
}

func (s *Stream) finish(at time.Duration, c *Chunk) {
	if s.ended != "" {
		s.Fail(at, EndedTwice, "%s at %d after %s at %d", c.Ended(), c.Index, s.ended, s.end)
		return
	}
	s.end, s.ended = c.Index, c.Ended()
	if s.ended == Whole {
		s.compare(at, c)
		return
	}
	s.checkEnd(at, c)
}

func (s *Stream) checkEnd(at time.Duration, c *Chunk) {
	if left := s.expect.Deadline - at; s.ended == Late && left > early {
		s.Fail(at, WrongEnd, "%s at index %d, %v before its deadline", s.ended, c.Index, left.Round(time.Millisecond))
		return
	}
	if slices.Contains(s.expect.Ends, s.ended) {
		return
	}
	message := ""
	if c.Error != nil {
		message = ": " + c.Error.Message
	}
	s.Fail(at, WrongEnd, "%s at index %d%s", s.ended, c.Index, message)
}
