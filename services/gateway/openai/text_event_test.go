package openai

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// An event of a text alone has the bytes that encoding it as any other has.
func TestTextEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z <>&"\\\n\x{2028}]+`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		a := &Ask{N: rapid.IntRange(1, 3).Draw(t, "n"), Prompts: []*pb.Prompt{{}}, Stream: true, Chat: rapid.Bool().Draw(t, "chat"), Logprobs: new(int32(0))}
		if rapid.Bool().Draw(t, "without log-probabilities") {
			a.Logprobs = nil
		}
		r := NewWriter(a, Head{ID: "1", Model: text.Draw(t, "model"), Fingerprint: "fp_1", Created: 7})
		c := r.Choices[rapid.IntRange(0, a.N-1).Draw(t, "answer")]
		c.begun = true
		for range 2 {
			p := c.Push(&pb.Chunk{Text: text.Draw(t, "text")})
			for _, event := range r.Parts(c, p) {
				want, err := Encode(r.writer.part(c, p)[0])
				if err != nil {
					t.Fatal(err)
				}
				own, is := event.(*textEvent)
				if !is {
					t.Fatalf("an event of a text alone is %T", event)
				}
				if got := own.AppendJSON(nil); string(got) != string(want) || !json.Valid(got) {
					t.Fatalf("%s, want %s", got, want)
				}
			}
		}
	})
}

// What is more than a text is written whole.
func TestTextAlone(t *testing.T) {
	for name, p := range map[string]Piece{
		"end": {Text: "a", Finish: "stop"}, "thought": {Text: "a", Reasoning: "b"}, "call": {Text: "a", Calls: []Call{{}}}, "token": {Text: "a", Tokens: []Token{{}}}, "id": {Text: "a", ids: []uint32{1}}, "nothing": {},
	} {
		if p.textAlone() {
			t.Errorf("%s: %v is a text alone", name, p)
		}
	}
	if !(Piece{Text: "a", First: true}).textAlone() {
		t.Error("a text is none")
	}
}
