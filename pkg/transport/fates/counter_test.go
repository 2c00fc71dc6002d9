package fates

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestCounter(t *testing.T) {
	s := Shape{Rows: 3, Layers: 2, Slots: 2}
	some := Encode(s, []Code{Own, United, Own, LeftOut, Own, Own, Own, Own, United, United, United, United})
	some.Way = 4
	omitted := Plain(s)
	omitted.Omitted = true
	for _, tc := range []struct {
		name string
		add  []*pb.Fates
		at   []uint32
		want Counter
	}{
		{"nothing", []*pb.Fates{nil, Plain(s)}, []uint32{500_000, 500_000}, Counter{}},
		{"some slots of two rows", []*pb.Fates{some}, []uint32{600_000}, Counter{Rows: 6, Tokens: 2, Lowest: 600_000, Way: 4}},
		{"the lowest of both", []*pb.Fates{some, some, nil}, []uint32{600_000, 500_000, 100}, Counter{Rows: 12, Tokens: 4, Lowest: 500_000, Way: 4}},
		{"omitted ones may be all", []*pb.Fates{omitted}, []uint32{0}, Counter{Rows: 12, Tokens: 3}},
		{"none that can be", []*pb.Fates{{Rows: 1, Layers: 1, Slots: 1, Codes: []byte{9}}}, []uint32{0}, Counter{}},
	} {
		var c Counter
		for i, f := range tc.add {
			c.Add(f, tc.at[i])
		}
		if c != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, c, tc.want)
		}
		if back := CounterOf(c.Record()); back != c {
			t.Errorf("%s: %+v went into the log, %+v came out", tc.name, c, back)
		}
	}
}
