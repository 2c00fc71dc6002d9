package words

// Cutter passes the parts of texts on, in order: matches of a splitter and what
// is between them, joined or left out by the behavior. It is used for one text
// after the other, so that words need no memory of their own.
type Cutter struct {
	splitter Splitter
	behavior Behavior
	invert   bool // what is between matches counts as the matches
	next     func(part string) error

	text       string
	done       int
	start, end int // held, because it may grow; empty if they are equal
	match      bool
	found      func(start, end int) error
}

// NewCutter passes parts to next.
func NewCutter(s Splitter, b Behavior, invert bool, next func(part string) error) *Cutter {
	c := &Cutter{splitter: s, behavior: b, invert: invert, next: next}
	c.found = c.take
	return c
}

// Cut cuts one text, until next fails.
func (c *Cutter) Cut(text string) error {
	c.text, c.done, c.start, c.end = text, 0, 0, 0
	err := c.splitter.Each(text, c.found)
	if err == nil && c.done < len(text) {
		err = c.add(c.done, len(text), c.invert)
	}
	if err != nil {
		return err
	}
	return c.flush()
}

func (c *Cutter) take(start, end int) error {
	if c.done < start {
		if err := c.add(c.done, start, c.invert); err != nil {
			return err
		}
	}
	c.done = end
	return c.add(start, end, !c.invert)
}

func (c *Cutter) add(start, end int, match bool) error {
	switch {
	case c.behavior == Isolated, c.behavior == Removed && !match:
		return c.next(c.text[start:end])
	case c.behavior == Removed:
		return nil
	case c.joins(match):
		c.end, c.match = end, match
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.start, c.end, c.match = start, end, match
	return nil
}

// joins reports whether a part belongs to the held one.
func (c *Cutter) joins(match bool) bool {
	if c.start == c.end {
		return false
	}
	switch c.behavior {
	case MergedWithPrevious:
		return match && !c.match
	case MergedWithNext:
		return !match && c.match
	}
	return match == c.match
}

func (c *Cutter) flush() error {
	if c.start == c.end {
		return nil
	}
	start := c.start
	c.start = c.end
	return c.next(c.text[start:c.end])
}
