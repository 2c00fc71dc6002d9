package sps

import (
	"errors"
	"fmt"
	"math"
)

// Clustering says how a leaf with too many prompts is divided.
type Clustering uint8

// The clusterings.
const (
	// Semantic is Remoe's: k-medoids by the similarity of prompts.
	Semantic Clustering = iota
	// PAM is VarPAM: Partitioning Around Medoids, which tries all exchanges of a medoid. It
	// takes the square of the prompts, in time and in memory.
	PAM
	// Activation is VarED: Remoe's k-medoids by the distance of the prompts' activations.
	Activation
)

// Settings are those of a store.
type Settings struct {
	// Model is the hash of the model whose prompts they are; empty where that is known otherwise.
	Model           string
	Layers, Experts int // of activations
	Width           int // of vectors
	Alpha           int // similar prompts that a prediction is made of
	Beta            int // prompts of a leaf, at most
	Branch          int // children of a node, at most
	// Leaves are how many a search goes through, the nearest first. The paper's goes through one, as 0 does.
	Leaves int `json:",omitempty"`
	// Capacity is the most prompts; the oldest goes for a new one. 0 is no limit.
	Capacity int
	Seed     uint64
	// Temperature divides similarities before the softmax; the paper has none, which is 1.
	Temperature float64
	Clustering  Clustering
	// Centred compares prompts by what they are beside the mean of those that the store was made of:
	// tokens that all prompts have make all alike. The paper does not.
	Centred bool
	// Blended lets Fit give the mean of all prompts a part in predictions, which is Typical: few similar
	// prompts have rows by chance. The paper has none, which is 0.
	Blended bool
	Typical float64
}

// Paper are the paper's settings (section V-B) for activations and vectors of a size. That
// nodes have 8 children is assumed: the paper has no number.
func Paper(layers, experts, width int) Settings {
	return Settings{Layers: layers, Experts: experts, Width: width, Alpha: 15, Beta: 150, Branch: 8, Temperature: 1}
}

// The bounds of settings.
const (
	mostValues   = 1 << 24 // of a matrix or a vector
	mostCapacity = 1 << 24
	mostBranch   = 1 << 10
	// mostPAM is the most prompts that PAM divides: their distances take a float32 a pair.
	mostPAM = 1 << 13
)

// What is refused, each with what was wrong.
var (
	ErrSettings = errors.New("settings of similar prompts")
	ErrPrompt   = errors.New("a prompt that cannot be compared")
)

// Check says what is wrong with settings, and what to do.
func (s Settings) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrSettings}, args...)...)
	}
	switch {
	case s.Layers < 1 || s.Experts < 1 || s.Layers > mostValues/s.Experts:
		return wrong("activations have %d layers of %d experts; there must be 1 of each or more, and %d values at most", s.Layers, s.Experts, mostValues)
	case s.Width < 1 || s.Width > mostValues:
		return wrong("vectors have %d values; they must have 1 to %d", s.Width, mostValues)
	case s.Alpha < 1:
		return wrong("a prediction is made of %d prompts (α); set it to 1 or more, such as 15", s.Alpha)
	case s.Beta <= s.Alpha:
		return wrong("a leaf has up to %d prompts (β), and a search wants %d of them (α); set β above α", s.Beta, s.Alpha)
	case s.Branch < 2 || s.Branch > mostBranch:
		return wrong("nodes have up to %d children; set it to 2 to %d", s.Branch, mostBranch)
	case s.Leaves < 0:
		return wrong("a search goes through %d leaves; set it to 1 (the paper) or more", s.Leaves)
	case s.Capacity < 0 || s.Capacity > mostCapacity || s.Capacity > 0 && s.Capacity < s.Alpha:
		return wrong("there is room for %d prompts; set it to %d (α) to %d, or 0 for no limit", s.Capacity, s.Alpha, mostCapacity)
	case !(s.Temperature > 0) || math.IsInf(s.Temperature, 0):
		return wrong("the temperature is %v; set it above 0, such as 1", s.Temperature)
	case !(s.Typical >= 0 && s.Typical <= 1):
		return wrong("the mean of all prompts has a part of %v in predictions; set it to 0 to 1", s.Typical)
	case s.Clustering > Activation:
		return wrong("there is no clustering %d", s.Clustering)
	}
	return nil
}
