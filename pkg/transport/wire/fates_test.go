package wire

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What is encoded comes back, in about two bits a slot at most, and nothing is nothing.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := FatesShape{rapid.IntRange(1, 9).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "layers"), rapid.IntRange(1, 4).Draw(t, "slots")}
		of := rapid.SliceOfN(rapid.SampledFrom([]FateCode{FateOwn, FateOwn, FateUnited, FateLeftOut}), s.size(), s.size()).Draw(t, "codes")
		f := EncodeFates(s, of)
		if f == nil {
			if slices.Max(of) != FateOwn {
				t.Fatalf("%v are nothing", of)
			}
			f = PlainFates(s)
		}
		got, err := DecodeFates(f)
		if err != nil || !slices.Equal(got, of) || CheckFatesShape(f, s) != nil {
			t.Fatalf("%v came back as %v, %v", of, got, err)
		}
		if len(f.Codes) > 1+(len(of)+3)/4 {
			t.Fatalf("%d bytes for %d slots", len(f.Codes), len(of))
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		f       *pb.Fates
		problem string
	}{
		"nothing":       {&pb.Fates{}, "0 rows"},
		"huge":          {&pb.Fates{Rows: 1 << 31, Layers: 1 << 31, Slots: 1 << 31}, "together"},
		"form":          {&pb.Fates{Rows: 1, Layers: 1, Slots: 1, Codes: []byte{3}}, "form 3"},
		"short runs":    {&pb.Fates{Rows: 1, Layers: 1, Slots: 2, Codes: []byte{formRuns, 1<<2 | 1}}, "runs of 1 of 2"},
		"long run":      {&pb.Fates{Rows: 1, Layers: 1, Slots: 2, Codes: []byte{formRuns, 3<<2 | 1}}, "a run of 3"},
		"empty run":     {&pb.Fates{Rows: 1, Layers: 1, Slots: 1, Codes: []byte{formRuns, 1}}, "a run of 0"},
		"behind":        {&pb.Fates{Rows: 1, Layers: 1, Slots: 1, Codes: []byte{formRuns, 1<<2 | 1, 0}}, "1 bytes behind"},
		"code of a run": {&pb.Fates{Rows: 1, Layers: 1, Slots: 1, Codes: []byte{formRuns, 1<<2 | 3}}, "code 3"},
		"code":          {&pb.Fates{Rows: 1, Layers: 1, Slots: 1, Codes: []byte{formPairs, 3}}, "code 3"},
		"pairs":         {&pb.Fates{Rows: 1, Layers: 1, Slots: 5, Codes: []byte{formPairs, 1}}, "5 slots in 1 bytes"},
		"beyond":        {&pb.Fates{Rows: 1, Layers: 1, Slots: 1, Codes: []byte{formPairs, 1 | 1<<2}}, "beyond"},
		"omitted":       {&pb.Fates{Rows: 1, Layers: 1, Slots: 1, Omitted: true, Codes: []byte{formRuns}}, "omitted"},
	} {
		if err := CheckFates(tc.f); !errors.Is(err, ErrFates) || !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: %v, want %q", name, err, tc.problem)
		}
	}
	if err := CheckFatesShape(PlainFates(FatesShape{2, 1, 1}), FatesShape{1, 1, 1}); !errors.Is(err, ErrFates) {
		t.Errorf("another shape: %v", err)
	}
}

// What can be read is read again as the same after it was written.
func FuzzDecode(f *testing.F) {
	for _, of := range [][]FateCode{{FateOwn, FateUnited, FateUnited, FateLeftOut}, {FateOwn, FateOwn, FateOwn, FateUnited}} {
		body, err := proto.Marshal(EncodeFates(FatesShape{2, 1, 2}, of))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m := &pb.Fates{}
		if proto.Unmarshal(body, m) != nil || uint64(m.Rows)*uint64(m.Layers)*uint64(m.Slots) > 1<<16 {
			return
		}
		of, err := DecodeFates(m)
		if err != nil || m.Omitted {
			return
		}
		again := EncodeFates(FatesShapeOf(m), of)
		if again == nil {
			again = PlainFates(FatesShapeOf(m))
		}
		if got, err := DecodeFates(again); err != nil || !slices.Equal(got, of) {
			t.Errorf("%v came back as %v, %v", of, got, err)
		}
	})
}
