package intake

import (
	"context"
	"testing"
	"testing/synctest"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What takes much memory waits for its turn, small things do not, and what is larger than
// the bound is alone.
func TestDecodingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecoding()
		leave, err := d.enter(t.Context(), 10*decodingBytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.enter(t.Context(), smallDecoding); err != nil {
			t.Error(err)
		}
		entered := make(chan struct{})
		go func() {
			if out, err := d.enter(t.Context(), decodingBytes/2); err == nil {
				out()
			}
			close(entered)
		}()
		synctest.Wait()
		select {
		case <-entered:
			t.Error("a large one is read beside one that takes all there is")
		default:
		}
		leave()
		<-entered
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		again, _ := d.enter(t.Context(), decodingBytes)
		defer again()
		if _, err := d.enter(ended, decodingBytes); err == nil {
			t.Error("waited beyond its context")
		}
	})
}

// JSON for the chat template takes more than text, text more than ids.
func TestTokenizedBytes(t *testing.T) {
	text, content := "12345678", "12345678"
	for name, tc := range map[string]struct {
		p    *pb.Prompt
		want int64
	}{
		"ids":      {&pb.Prompt{InputIds: make([]uint32, 100)}, 0},
		"text":     {&pb.Prompt{Text: text}, 8 * perTextByte},
		"messages": {&pb.Prompt{Messages: []*pb.ChatMessage{{Content: &content, ReasoningContent: text, ToolCalls: text}}}, 16*perTextByte + 8*perValueByte},
		"tools":    {&pb.Prompt{Tools: text, ChatTemplateKwargs: text}, 16 * perValueByte},
	} {
		if got := tokenizedBytes(tc.p); got != tc.want {
			t.Errorf("%s: %d bytes, want %d", name, got, tc.want)
		}
	}
}
