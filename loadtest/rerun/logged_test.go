package rerun

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func accepted(s *pb.Sequence) tokenlog.Entry {
	return tokenlog.Entry{Record: &pb.Record{Kind: &pb.Record_Accept{Accept: &pb.Accept{Sequence: s}}}}
}

func token(id uint32, of ...*pb.Fates) tokenlog.Entry {
	return tokenlog.Entry{Record: &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Id: id, Fates: of}}}}
}

// What a log cannot have of this model is refused by what it is: memory and loops follow its numbers.
func TestRead(t *testing.T) {
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }() // it is only read
	spec := &m.Spec
	layers := spec.MoELayers()
	asked := func(change func(*pb.Sequence)) tokenlog.Entry {
		s := &pb.Sequence{PromptIds: []uint32{1, 2, 3}, MaxTokens: 4}
		change(s)
		return accepted(s)
	}
	plain := asked(func(*pb.Sequence) {})
	rows := func(n int) *pb.Fates {
		s := wire.FatesShape{Rows: n, Layers: layers, Slots: spec.TopK}
		codes := make([]wire.FateCode, n*layers*spec.TopK)
		codes[0] = wire.FateLeftOut
		return wire.EncodeFates(s, codes)
	}
	omitted := wire.PlainFates(wire.FatesShape{Rows: 3, Layers: layers, Slots: spec.TopK})
	omitted.Omitted = true
	for _, tc := range []struct {
		name string
		log  []tokenlog.Entry
		want string // empty: it can be computed again
	}{
		{"plain", []tokenlog.Entry{plain, token(7), token(8)}, ""},
		{"degraded", []tokenlog.Entry{plain, token(7, rows(3)), token(8, rows(1))}, ""},
		{"nothing", nil, "no acceptance"},
		{"tokens alone", []tokenlog.Entry{token(7)}, "tokens and no acceptance"},
		{"no prompt", []tokenlog.Entry{accepted(nil)}, "no prompt"},
		{"empty prompt", []tokenlog.Entry{asked(func(s *pb.Sequence) { s.PromptIds = nil })}, "cannot be asked of this model"},
		{"id", []tokenlog.Entry{asked(func(s *pb.Sequence) { s.PromptIds[1] = 1 << 31 })}, "outside the vocabulary"},
		{"length", []tokenlog.Entry{asked(func(s *pb.Sequence) { s.MaxTokens = 1 << 30 })}, "do not fit"},
		{"places to fill", []tokenlog.Entry{asked(func(s *pb.Sequence) { s.Fill = []uint32{1 << 31} })}, "another model's sequence"},
		{"encoder", []tokenlog.Entry{asked(func(s *pb.Sequence) { s.Source = 1 << 31 })}, "do not fit"},
		{"omitted fates", []tokenlog.Entry{plain, token(7, omitted)}, "too long for the log"},
		{"too few rows", []tokenlog.Entry{plain, token(7, rows(2))}, "of 2 rows, and it has 3"},
		{"rows of another shape", []tokenlog.Entry{plain, token(7, &pb.Fates{Rows: 3, Layers: 1, Slots: 1})}, "fates of 3 rows, 1 layers"},
		{"endless rows", []tokenlog.Entry{plain, token(7, &pb.Fates{Rows: 1 << 31, Layers: uint32(layers), Slots: uint32(spec.TopK)})}, "together"},
	} {
		l, err := Read(tc.log, spec)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want == "" && (len(l.Tokens) != 2 || (l.Degraded() > 0) != (tc.name == "degraded")):
			t.Errorf("%s: %+v", tc.name, l)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
