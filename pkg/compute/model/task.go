package model

// Task is what a model does with a prompt.
type Task uint8

// The tasks.
const (
	Continue Task = iota // a decoder goes on with it
	Fill                 // an encoder fills the places of its masks
	Answer               // a decoder answers what an encoder has read
)

// Task follows from which layers are an encoder's.
func (s *Spec) Task() Task {
	switch s.EncoderLayers {
	case 0:
		return Continue
	case s.Layers:
		return Fill
	}
	return Answer
}

// LongestRequest returns the most tokens of a prompt and its answer together: an
// encoder and a decoder have all positions each, and what fills a prompt's masks
// is counted beside it.
func (s *Spec) LongestRequest() int {
	if s.Task() == Continue {
		return s.MaxPositions
	}
	return 2 * s.MaxPositions
}

// LongestSequence returns the most positions of a sequence where a setting allows
// limit of them; 0: as many as the model has.
func (s *Spec) LongestSequence(limit int) int {
	if limit > 0 {
		return min(limit, s.MaxPositions)
	}
	return s.MaxPositions
}

// SourceTypes returns how many segments an encoder tells apart.
func (s *Spec) SourceTypes() int {
	switch s.Task() {
	case Fill:
		return s.Embedding.Types
	case Answer:
		return s.Encoder.Types
	}
	return 0
}
