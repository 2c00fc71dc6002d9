package kafka

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// sequence tells by samples' numbers what was repeated and what is missing. A
// replica's samples of one layer are in one partition, in order, so that a number
// that is not above the last one is a repeat.
type sequence struct {
	last map[stream]uint64
}

// maxStreams bounds what is remembered. Beyond that everything is forgotten:
// repeats are rare, and none is worse than a sample handled twice.
const maxStreams = 1 << 18

func newSequence() *sequence { return &sequence{last: map[stream]uint64{}} }

// next reports whether a sample is new, and how many before it were not seen. One
// without a number is always new.
func (q *sequence) next(s *pb.LoadSample) (missed uint64, fresh bool) {
	if s.Number == 0 {
		return 0, true
	}
	of := stream{s.Host, s.Source, s.Layer}
	last, known := q.last[of]
	if known && s.Number <= last {
		return 0, false
	}
	if len(q.last) >= maxStreams {
		clear(q.last)
	}
	q.last[of] = s.Number
	if !known {
		return 0, true
	}
	return s.Number - last - 1, true
}
