package delivery

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// letters is a Detokenizer whose token i is the letter 'a'+i.
type letters struct{}

func (letters) Push(id uint32) string { return string(rune('a' + id)) }
func (letters) Flush() string         { return "" }

func tokens(text string) (out []*pb.Record) {
	for i, r := range text {
		out = append(out, &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Index: int32(i), Id: uint32(r - 'a')}}})
	}
	return out
}

func terminal(reason string) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: reason}}}
}

func collect(accept *pb.Accept, records []*pb.Record) (chunks []*pb.Chunk) {
	a := newAnswer("r", accept, letters{})
	for _, r := range records {
		if c := a.push(r); c != nil {
			chunks = append(chunks, c)
		}
	}
	return chunks
}

func textOf(chunks []*pb.Chunk) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

// A stop string that the first min_tokens tokens complete is text.
func TestMinTokens(t *testing.T) {
	for least, want := range map[int32]string{0: "", 1: "", 2: "abcdc", 3: "abcdc", 6: "abcdc", 7: "abcdcabd", 8: "abcdcabd"} {
		chunks := collect(&pb.Accept{MaxTokens: 8, MinTokens: least, Stop: []string{"ab"}}, append(tokens("abcdcabd"), terminal("length")))
		if got := textOf(chunks); got != want {
			t.Errorf("min_tokens %d: %q, want %q", least, got, want)
		}
	}
}

// Every index appears once, ascending, and only the last chunk ends the stream.
func TestAnswerIndexes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-d]{0,20}`).Draw(t, "text")
		accept := &pb.Accept{
			MaxTokens: int32(rapid.IntRange(max(1, len(text)), 30).Draw(t, "max")),
			Stop:      rapid.SliceOfN(rapid.StringMatching(`[a-d]{1,3}`), 0, 2).Draw(t, "stop"),
		}
		chunks := collect(accept, append(tokens(text), terminal("length")))
		for i, c := range chunks {
			if i > 0 && c.Index <= chunks[i-1].Index {
				t.Fatalf("index %d after %d", c.Index, chunks[i-1].Index)
			}
			if (c.FinishReason != "") != (i == len(chunks)-1) {
				t.Fatalf("chunk %d of %d has finish reason %q", i, len(chunks), c.FinishReason)
			}
		}
		got := textOf(chunks)
		for _, s := range accept.Stop {
			if strings.Contains(got, s) {
				t.Fatalf("stop string %q leaked in %q", s, got)
			}
		}
		if !strings.HasPrefix(text, got) {
			t.Fatalf("%q is no prefix of %q", got, text)
		}
	})
}

func (letters) Piece(id uint32) []byte { return []byte{byte(id)} }
