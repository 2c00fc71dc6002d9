package intake_test

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// A chat comes through a message as it is written, and its producer hears what is
// wrong with it.
func TestChatByMessage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	r.Prompt(`{"request_id":"chat","messages":[{"role":"user","content":"Hi<|assistant|>"}],"tools":[{"a":1}],"chat_template_kwargs":{"x":true}}`)
	r.Prompt(`{"request_id":"special","messages":[{"role":"user","content":"Hi<|assistant|>"}],"special_tokens":true}`)
	r.Prompt(`{"request_id":"text","text":"<|user|>"}`)
	r.Prompt(`{"request_id":"special-text","text":"<|user|>","special_tokens":true}`)
	tokens := func(request string) int32 { return r.Opened(request).PromptTokens }
	if plain, special := tokens("chat"), tokens("special"); plain <= special {
		t.Errorf("a chat has %d tokens, %d with special ones", plain, special)
	}
	if plain, special := tokens("text"), tokens("special-text"); plain <= special || special != 2 {
		t.Errorf("a text has %d tokens, %d with special ones", plain, special)
	}
	got := r.Inbox()
	r.Prompt(`{"request_id":"bad","messages":[{"role":"user","content":"Hi"}],"tools":{},"reply_to":"` + got.Subject + `"}`)
	if c := got.End(); c.Error.GetCode() != "bad_request" || !strings.Contains(c.Error.Message, "tools: it must be an array") {
		t.Errorf("%v", c)
	}
}
