package client

import (
	"testing"

	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TestOrderProperty delivers an answer's chunks in any order, any number of
// times: what comes out is the answer, once, and its end last.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := answer(t)
		total := len(chunks)
		o := newOrder(first(chunks[0]), false)
		var got []*pb.Chunk
		delivered := append([]*pb.Chunk(nil), chunks...)
		extra := rapid.SliceOfN(rapid.IntRange(0, total-1), 0, maxEnds-1).Draw(t, "repeats")
		for _, i := range extra {
			delivered = append(delivered, chunks[i])
		}
		for _, c := range rapid.Permutation(delivered).Draw(t, "order") {
			ready, err := o.add(c)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ready...)
		}
		if len(got) != total || !o.ended || o.gap() {
			t.Fatalf("%d of %d chunks came out, ended %v", len(got), total, o.ended)
		}
		for i := range got {
			if got[i] != chunks[i] {
				t.Fatalf("chunk %d is %v, want %v", i, got[i], chunks[i])
			}
		}
	})
}

// answer draws the chunks of an answer: one or more tokens each, with or
// without ids, and one of the ways to end it.
func answer(t *rapid.T) []*pb.Chunk {
	next := rapid.Int32Range(0, 5).Draw(t, "from")
	var chunks []*pb.Chunk
	for range rapid.IntRange(1, 12).Draw(t, "chunks") {
		size := rapid.Int32Range(0, 3).Draw(t, "size")
		next += max(1, size)
		chunks = append(chunks, &pb.Chunk{Index: next - 1, TokenIds: make([]uint32, size)})
	}
	last := &pb.Chunk{FinishReason: "stop", Usage: &pb.Usage{CompletionTokens: next}}
	switch rapid.SampledFrom([]string{"none", "same", "after", "own"}).Draw(t, "end") {
	case "none":
		last.Index = -1
	case "same":
		last.Index = next - 1
	case "after":
		last.Index = next
	case "own":
		last.Index, last.TokenIds = next+1, make([]uint32, 2)
	}
	return append(chunks, last)
}

func TestOrderOverlap(t *testing.T) {
	o := newOrder(0, false)
	if _, err := o.add(&pb.Chunk{Index: 1, TokenIds: []uint32{1, 2}}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.add(&pb.Chunk{Index: 2, TokenIds: []uint32{2, 3}}); err == nil {
		t.Error("a chunk that overlaps another was taken")
	}
}

func TestOrderFrom(t *testing.T) {
	o := newOrder(0, true)
	for _, c := range []*pb.Chunk{token("r", 0), scoreOf("r", 1)} {
		if _, err := o.add(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.from(); got != 0 {
		t.Errorf("from %d, want 0: a score is missing", got)
	}
}

func TestOrderEndless(t *testing.T) {
	o := newOrder(0, false)
	for range maxEnds {
		if _, err := o.add(end("r", 3)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.add(end("r", 3)); err == nil {
		t.Error("an end without its tokens was taken forever")
	}
}
