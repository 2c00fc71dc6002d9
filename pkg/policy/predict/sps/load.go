package sps

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Load reads a snapshot, and believes nothing of it that it can check.
func Load(r io.Reader) (*Store, error) {
	sum := sha256.New()
	in := bufio.NewReaderSize(r, 1<<16)
	x := reader{in: io.TeeReader(in, sum)}
	h, err := x.header()
	if err != nil {
		return nil, err
	}
	s, err := New(h.Settings, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if h.Slots < 0 || h.Slots > mostCapacity || h.Added < h.Slots || s.Capacity > 0 && h.Slots > s.Capacity || s.Capacity == 0 && h.Added != h.Slots {
		return nil, fmt.Errorf("%w: it says that %d prompts have come into %d places", ErrDamaged, h.Added, h.Slots)
	}
	s.added, s.draws = h.Added, h.Draws
	if err := x.means(s); err != nil {
		return nil, err
	}
	there, err := x.prompts(s, h.Slots)
	if err != nil {
		return nil, err
	}
	if s.root, err = x.node(s, nil, 0); err != nil {
		return nil, err
	}
	if s.root.size != there {
		return nil, fmt.Errorf("%w: %d of its %d prompts are in its tree", ErrDamaged, s.root.size, there)
	}
	want, got := sum.Sum(nil), make([]byte, sha256.Size)
	if _, err := io.ReadFull(in, got); err != nil || !bytes.Equal(got, want) {
		return nil, fmt.Errorf("%w: its digest is not that of its content; restore it from elsewhere, or build it anew", ErrDamaged)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	return s, nil
}

// reader reads parts of a snapshot.
type reader struct{ in io.Reader }

func (x *reader) bytes(n int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(x.in, int64(n))) // grows as it comes: sizes may lie
	if err == nil && len(b) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it is cut off (%w); restore it from elsewhere, or build it anew", ErrDamaged, err)
	}
	return b, nil
}

func (x *reader) numbers(into ...*int) error {
	b, err := x.bytes(4 * len(into))
	for i := range into {
		if err == nil {
			*into[i] = int(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	return err
}

func (x *reader) floats(n int) ([]float32, error) {
	b, err := x.bytes(4 * n)
	if err != nil {
		return nil, err
	}
	all := make([]float32, n)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return all, nil
}

func (x *reader) header() (h header, err error) {
	begin, err := x.bytes(len(Magic))
	if err != nil || string(begin) != Magic {
		return h, fmt.Errorf("%w: it does not begin with %q; switchyard sps build makes one", ErrNoSnapshot, strings.TrimSpace(Magic))
	}
	size := 0
	if err := x.numbers(&size); err != nil {
		return h, err
	}
	if size > mostHeader {
		return h, fmt.Errorf("%w: its header has %d bytes; at most %d are read", ErrDamaged, size, mostHeader)
	}
	data, err := x.bytes(size)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("%w: reading its header: %w", ErrDamaged, err)
	}
	return h, nil
}

func (x *reader) means(s *Store) (err error) {
	if s.centre, err = x.floats(s.Width); err != nil {
		return err
	}
	if s.typical, err = x.floats(s.Layers * s.Experts); err != nil {
		return err
	}
	if norm := length(s.centre); !(norm <= 1+offOne) {
		return fmt.Errorf("%w: the mean of its vectors has length %v, above 1", ErrDamaged, norm)
	}
	one := Prompt{make([]float32, s.Width), s.typical}
	one.Vector[0] = 1
	if err := s.check(one); err != nil {
		return fmt.Errorf("%w: the mean of its prompts: %w", ErrDamaged, err)
	}
	return nil
}

// prompts reads those of all slots, and says how many there are.
func (x *reader) prompts(s *Store, slots int) (there int, err error) {
	none := Prompt{make([]float32, s.Width), make([]float32, s.Layers*s.Experts)}
	for slot := range slots {
		is, p := 0, none
		if err := x.numbers(&is); err != nil {
			return 0, err
		}
		if is == 1 {
			if p.Vector, err = x.floats(s.Width); err != nil {
				return 0, err
			}
			if p.Activation, err = x.floats(s.Layers * s.Experts); err != nil {
				return 0, err
			}
			if err := s.check(p); err != nil {
				return 0, fmt.Errorf("%w: prompt %d: %w", ErrDamaged, slot, err)
			}
			there++
		}
		s.vectors.set(int32(slot), p.Vector)
		s.activations.set(int32(slot), p.Activation)
		s.leaves = append(s.leaves, nil)
	}
	return there, nil
}

// members reads which prompts are in a leaf.
func (x *reader) members(s *Store, n *node, count int) error {
	for range count {
		slot := 0
		if err := x.numbers(&slot); err != nil {
			return err
		}
		if slot >= len(s.leaves) || s.leaves[slot] != nil || length(s.vectors.row(int32(slot))) == 0 {
			return fmt.Errorf("%w: its tree has prompt %d of %d twice, or one that is not there", ErrDamaged, slot, len(s.leaves))
		}
		s.leaves[slot] = n
		n.members = append(n.members, int32(slot))
	}
	return nil
}

// node reads a node and what is below it. A prompt is in one leaf.
func (x *reader) node(s *Store, parent *node, depth int) (n *node, err error) {
	n = &node{parent: parent}
	children, members := 0, 0
	if err := x.numbers(&children, &members, &n.alike); err != nil {
		return nil, err
	}
	if depth > mostDepth || children > s.Branch || children > 0 && members > 0 || members > len(s.leaves) || parent != nil && children+members == 0 {
		return nil, fmt.Errorf("%w: a node of its tree has %d children and %d prompts", ErrDamaged, children, members)
	}
	if parent != nil {
		if n.medoid, err = x.floats(s.Width); err != nil {
			return nil, err
		}
		if norm := length(n.medoid); !(math.Abs(norm-1) <= offOne) {
			return nil, fmt.Errorf("%w: a medoid has length %v, not 1", ErrDamaged, norm)
		}
	}
	if err := x.members(s, n, members); err != nil {
		return nil, err
	}
	n.size = members
	for range children {
		c, err := x.node(s, n, depth+1)
		if err != nil {
			return nil, err
		}
		n.children, n.size = append(n.children, c), n.size+c.size
	}
	return n, nil
}

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
