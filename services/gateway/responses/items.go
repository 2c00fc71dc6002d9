package responses

import (
	"strconv"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Kinds of items.
const (
	kindMessage, kindThoughts, kindCall = "message", "reasoning", "function_call"
)

// item is one of an answer's: what a model said, thought, or calls.
type item struct {
	kind, id   string
	call, name string // of a call: its id, and whom it calls
	status     string
	sealed     bool // thoughts are told sealed, too
	text       strings.Builder
}

// piece is what a chunk adds to an item.
type piece struct{ kind, call, name, text string }

func partsOf(c *pb.Chunk) (out []piece) {
	if text := c.GetParsed().GetReasoningContent(); text != "" {
		out = append(out, piece{kind: kindThoughts, text: text})
	}
	if c.Text != "" {
		out = append(out, piece{kind: kindMessage, text: c.Text})
	}
	for _, t := range c.GetParsed().GetToolCalls() {
		out = append(out, piece{kindCall, t.Id, t.Name, t.Arguments})
	}
	return out
}

// ended reports whether what comes next is of another item.
func (i *item) ended(next piece) bool {
	return i.kind != next.kind || next.kind == kindCall && next.call != ""
}

var prefixes = map[string]string{kindMessage: "msg_", kindThoughts: "rs_", kindCall: "fc_"}

// itemID returns the id of an item that is to begin. The first one's is the response's.
func (r *Response) itemID(kind string) string {
	id := prefixes[kind] + strings.TrimPrefix(r.id, "resp_")
	if n := len(r.items); n > 0 {
		id += "." + strconv.Itoa(n)
	}
	return id
}

// outputItem is an item as clients read it.
type outputItem struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Status    string  `json:"status"`
	Role      string  `json:"role,omitempty"`
	Summary   *[]any  `json:"summary,omitempty"`
	Content   *[]part `json:"content,omitempty"`
	CallID    string  `json:"call_id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
	Encrypted *string `json:"encrypted_content,omitempty"`
}

type part struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations *[]any `json:"annotations,omitempty"`
	Logprobs    *[]any `json:"logprobs,omitempty"`
}

func textPart(kind, text string) part {
	p := part{Type: kind, Text: text}
	if kind == "output_text" {
		p.Annotations, p.Logprobs = &[]any{}, &[]any{}
	}
	return p
}

// shown returns the item as it is now.
func (i *item) shown() outputItem {
	out, text := outputItem{Type: i.kind, ID: i.id, Status: i.status}, i.text.String()
	content := []part{}
	switch i.kind {
	case kindMessage:
		out.Role = "assistant"
		if text != "" || i.status != InProgress {
			content = append(content, textPart("output_text", text))
		}
		out.Content = &content
	case kindThoughts:
		out.Summary = &[]any{}
		if text != "" {
			content = append(content, textPart("reasoning_text", text))
		}
		if i.sealed && i.status != InProgress {
			out.Encrypted = new(sealed(text))
		}
		out.Content = &content
	case kindCall:
		out.CallID, out.Name, out.Arguments = i.call, i.name, &text
	}
	return out
}
