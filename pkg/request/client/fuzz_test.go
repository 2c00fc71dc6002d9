package client

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever chunks come, in whatever order and however often: those that are shown are
// in order, without a gap and a repeat, and nothing comes behind the end.
func FuzzOrder(f *testing.F) {
	encode := func(c *pb.Chunk) []byte {
		body, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		return body
	}
	token := func(index int32, ids ...uint32) []byte { return encode(&pb.Chunk{Index: index, TokenIds: ids}) }
	end := encode(&pb.Chunk{Index: 3, FinishReason: "stop", TokenIds: []uint32{7}, Usage: &pb.Usage{CompletionTokens: 4}})
	score := encode(&pb.Chunk{Index: -2, Score: &pb.Score{Position: 1}})
	f.Add(token(0, 5), token(2, 5, 6), end, []byte{0, 1, 2})
	f.Add(token(0, 5), score, end, []byte{2, 2, 0, 1})
	f.Add(encode(&pb.Chunk{Index: -1, FinishReason: "error"}), token(1<<30, 1), token(-1<<31, 1, 2), []byte{1, 2, 0})
	f.Fuzz(func(t *testing.T, a, b, c, turns []byte) {
		o, ended := newOrder(0, false), false
		next := map[bool]int32{} // of tokens and of scores
		for _, turn := range turns {
			m := &pb.Chunk{}
			if proto.Unmarshal([][]byte{a, b, c}[turn%3], m) != nil {
				continue
			}
			shown, err := o.add(m)
			if err != nil {
				return
			}
			for _, s := range shown {
				if ended {
					t.Fatalf("%v behind the end", s)
				}
				if ended = s.FinishReason != ""; !ended {
					next[s.Score != nil] = follows(t, s, next[s.Score != nil])
				}
			}
		}
		if n := len(o.tokens.early) + len(o.scores.early); n > 2*maxEarly {
			t.Errorf("%d chunks are kept", n)
		}
	})
}

// follows checks that a chunk begins at the next index, and returns the one behind it.
func follows(t *testing.T, c *pb.Chunk, next int32) int32 {
	t.Helper()
	from, to := first(c), c.Index
	if c.Score != nil {
		from, to = c.Score.Position, c.Score.Position
	}
	if from != next || to < from {
		t.Fatalf("indices %d to %d came, %d was next", from, to, next)
	}
	return to + 1
}
