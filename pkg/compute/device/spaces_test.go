package device

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Spare spaces are given out again, and all together never take more than what was in use.
func TestSpaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spaces
		var used []*cpu.Space
		most, sizes := int64(0), []int64{1000, 1000, 3000}
		bytes := func(all []*cpu.Space) (n int64) {
			for _, one := range all {
				n += one.Bytes()
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				size := rapid.SampledFrom(sizes).Draw(t, "bytes")
				spare := 0
				for _, one := range s.spare {
					if one.Fits(size) {
						spare++
					}
				}
				got := s.take(size)
				for _, one := range used {
					if one == got {
						t.Fatal("a space is given out twice")
					}
				}
				for _, one := range s.spare {
					if one.Fits(size) {
						spare--
					}
				}
				if used = append(used, got); !got.Fits(size) || spare < 0 {
					t.Fatalf("%d bytes for %d", got.Bytes(), size)
				}
				most = max(most, bytes(used))
			},
			"give": func(t *rapid.T) {
				if len(used) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(used)-1).Draw(t, "which")
				s.give(used[i])
				used = append(used[:i], used[i+1:]...)
			},
			"": func(t *rapid.T) {
				if all := bytes(used) + bytes(s.spare); all > most || len(s.spare) > mostSpare || s.used != bytes(used) || s.kept != bytes(s.spare) {
					t.Fatalf("%d bytes in all, at most %d were in use; %d spare", all, most, len(s.spare))
				}
			},
		})
	})
}

// What was given up last is taken again: nothing is allocated where experts come and go.
func TestSpacesAgain(t *testing.T) {
	var s spaces
	first := s.take(1000)
	s.give(first)
	s.give(nil) // an expert beside has none
	if second := s.take(1000); second != first {
		t.Error("it is another one")
	}
	if other := s.take(2000); other == first || s.used != first.Bytes()+other.Bytes() {
		t.Error("it is in use twice")
	}
}
