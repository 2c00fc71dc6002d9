package schemas

import (
	"slices"
	"testing"
)

// What a model takes: figures that docs/operations/streams.md says.
func TestRoom(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name     string
		hops     Hops
		layers   int
		logBytes int64
		want     Room
	}{
		{"demo", HopsUnacked, 8, 0, Room{File: 5440 * mib, Memory: 576 * mib}},
		{"acked", HopsAcked, 8, 0, Room{File: 5440 * mib, Memory: 832 * mib}},
		{"core hops need no memory", HopsCore, 8, 0, Room{File: 5440 * mib}},
		{"48 layers", HopsUnacked, 48, 0, Room{File: 5440 * mib, Memory: 3136 * mib}},
		{"a smaller log", HopsUnacked, 1, 1 << 30, Room{File: 2368 * mib, Memory: 128 * mib}},
	} {
		layers := make([]int, tc.layers)
		for i := range layers {
			layers[i] = i
		}
		s := Streams{Subjects: subjects, Hops: tc.hops, LogBytes: tc.logBytes}
		if got := s.Room(layers); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// A model that a caller changes the list of has its buckets all the same.
func TestBucketKinds(t *testing.T) {
	kinds := BucketKinds()
	if !slices.IsSorted(kinds) {
		t.Errorf("%v", kinds)
	}
	kinds[0] = "other"
	if BucketKinds()[0] == "other" {
		t.Error("the list is shared")
	}
}
