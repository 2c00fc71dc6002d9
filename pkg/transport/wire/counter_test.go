package wire

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestCounter(t *testing.T) {
	s := FatesShape{Rows: 3, Layers: 2, Slots: 2}
	some := EncodeFates(s, []FateCode{FateOwn, FateUnited, FateOwn, FateLeftOut, FateOwn, FateOwn, FateOwn, FateOwn, FateUnited, FateUnited, FateUnited, FateUnited})
	some.Way = 4
	omitted := PlainFates(s)
	omitted.Omitted = true
	for _, tc := range []struct {
		name string
		add  []*pb.Fates
		at   []uint32
		want FateCounter
	}{
		{"nothing", []*pb.Fates{nil, PlainFates(s)}, []uint32{500_000, 500_000}, FateCounter{}},
		{"some slots of two rows", []*pb.Fates{some}, []uint32{600_000}, FateCounter{Rows: 6, Tokens: 2, Lowest: 600_000, Way: 4}},
		{"the lowest of both", []*pb.Fates{some, some, nil}, []uint32{600_000, 500_000, 100}, FateCounter{Rows: 12, Tokens: 4, Lowest: 500_000, Way: 4}},
		{"omitted ones may be all", []*pb.Fates{omitted}, []uint32{0}, FateCounter{Rows: 12, Tokens: 3}},
		{"none that can be", []*pb.Fates{{Rows: 1, Layers: 1, Slots: 1, Codes: []byte{9}}}, []uint32{0}, FateCounter{}},
	} {
		var c FateCounter
		for i, f := range tc.add {
			c.Add(f, tc.at[i])
		}
		if c != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, c, tc.want)
		}
		if back := FateCounterOf(c.Record()); back != c {
			t.Errorf("%s: %+v went into the log, %+v came out", tc.name, c, back)
		}
	}
}
