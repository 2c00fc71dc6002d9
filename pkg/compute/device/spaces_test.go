package device

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// alone runs pieces one after the other.
func alone(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

// inUse is an expert in use; one beside has no space.
type inUse struct {
	bytes int64
	space *cpu.Space
}

// Spare spaces are given out again, and with experts in use, those beside too, never take more than experts have taken.
func TestSpaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, used, most := newSpaces(alone), []inUse(nil), int64(0)
		sizes := rapid.SampledFrom([]int64{1000, 1000, 3000})
		all := func() (n int64) {
			for _, one := range used {
				n += one.bytes
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				size := sizes.Draw(t, "bytes")
				fits := func(one *cpu.Space) bool { return one.Bytes() == size }
				was := slices.Clone(s.spare)
				got := s.take(size)
				if !fits(got) || slices.ContainsFunc(was, fits) && !slices.Contains(was, got) || slices.Contains(s.spare, got) {
					t.Fatalf("%d bytes for %d, of %d spare spaces", got.Bytes(), size, len(was))
				}
				if slices.ContainsFunc(used, func(one inUse) bool { return one.space == got }) {
					t.Fatal("a space is given out twice")
				}
				used = append(used, inUse{size, got})
			},
			"beside": func(t *rapid.T) {
				used = append(used, inUse{bytes: sizes.Draw(t, "bytes")})
				s.use(used[len(used)-1].bytes, false)
			},
			"give": func(t *rapid.T) {
				if len(used) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(used)-1).Draw(t, "which")
				s.give(used[i].bytes, used[i].space)
				used = slices.Delete(used, i, i+1)
			},
			"": func(t *rapid.T) {
				kept := int64(0)
				for _, one := range s.spare {
					kept += one.Bytes()
				}
				most = max(most, all())
				if all()+kept > most || len(s.spare) > mostSpare || s.used != all() || s.kept != kept {
					t.Fatalf("%d bytes in use and %d spare in %d, where at most %d were in use", all(), kept, len(s.spare), most)
				}
			},
		})
	})
}

// What was given up last is taken again: nothing is allocated where experts come and go.
func TestSpacesAgain(t *testing.T) {
	s := newSpaces(alone)
	first := s.take(1000)
	cpu.Packer{Space: first}.F32(make([]float32, 4), 1, 4)
	left := first.Left()
	s.give(1000, first)
	if second := s.take(1000); second != first || left == 1000 || second.Left() != 1000 {
		t.Errorf("it is another one, or has room for %d and then %d bytes", left, second.Left())
	}
	if other := s.take(2000); other == first || s.used != 3000 {
		t.Error("it is in use twice")
	}
}

// Memory is allocated without the lock, which evictions take, and counted before.
func TestSpacesUnlocked(t *testing.T) {
	s := newSpaces(alone)
	s.give(1000, s.take(1000))
	made := false
	s.fresh = func(bytes int64) *cpu.Space {
		made = true
		if !s.mu.TryLock() {
			t.Fatal("evictions wait for new memory")
		}
		defer s.mu.Unlock()
		if s.used != bytes || s.used+s.kept > s.most {
			t.Errorf("%d bytes are in use and %d spare, of at most %d", s.used, s.kept, s.most)
		}
		return cpu.NewSpace(bytes)
	}
	if s.take(500); !made {
		t.Error("no memory was allocated")
	}
}
