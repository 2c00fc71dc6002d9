package engine

import (
	"errors"
	"slices"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A sequence steps on before its token is written, and its records come in their order.
func TestStepsBeforeWriting(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 3)
	b.add(s)
	b.start()
	b.arrive(0, 5, nil)
	if b.start(); len(b.flying) != 1 || len(book(s).records) != 0 {
		t.Fatalf("%d in flight, and the log has %v", len(b.flying), book(s).records)
	}
	if b.write() || !slices.Equal(book(s).tokens(), []uint32{5}) {
		t.Errorf("the log has %v", book(s).records)
	}
	b.arrive(0, 6, nil)
	b.cancel(&pb.Cancel{RequestId: "r", Reason: "cancelled"})
	if got := book(s); !slices.Equal(got.tokens(), []uint32{5, 6}) || got.records[2].GetTerminal() == nil {
		t.Errorf("the log has %v", got.records)
	}
}

// A record that is put directly comes behind those that a step has made.
func TestPutBehindMade(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 3)
	b.add(s)
	b.start()
	b.arrive(0, 5, nil)
	written := b.journal.put(s, &pb.Record{Kind: &pb.Record_Trial{Trial: &pb.Trial{}}})
	if got := book(s).records; !written || len(got) != 2 || got[0].GetToken() == nil || got[1].GetTrial() == nil {
		t.Errorf("written: %v, the log has %v", written, got)
	}
}

// Behind a token that could not be written nothing but the end is, and the sequence's place goes to others.
func TestUnwrittenEnds(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 10)
	b.add(s)
	b.start()
	b.arrive(0, 5, nil)
	b.start()
	book(s).refused = errors.New("no")
	if !b.write() || book(s).end().GetError().GetCode() != internal || b.released != 0 {
		t.Fatalf("%d released under their worker, the log has %v", b.released, book(s).records)
	}
	b.arrive(0, 6, nil)
	if b.write() || b.released != 1 || len(book(s).records) != 1 {
		t.Errorf("%d released, the log has %v", b.released, book(s).records)
	}
}

// A replica that stops leaves no token unwritten.
func TestLeavesWritten(t *testing.T) {
	b := newBench(t, 1, 8)
	s := b.request("r", 2, 10)
	b.add(s)
	b.start()
	b.arrive(0, 5, nil)
	if _, open := b.leave(); len(open) != 1 || !slices.Equal(book(s).tokens(), []uint32{5}) {
		t.Errorf("%d open, the log has %v", len(open), book(s).records)
	}
}
