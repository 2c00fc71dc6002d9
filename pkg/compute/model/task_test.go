package model

import "testing"

func TestLongestSequence(t *testing.T) {
	s := Spec{MaxPositions: 100}
	for limit, want := range map[int]int{0: 100, 40: 40, 100: 100, 200: 100} {
		if got := s.LongestSequence(limit); got != want {
			t.Errorf("limit %d: %d positions, want %d", limit, got, want)
		}
	}
}
