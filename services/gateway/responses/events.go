package responses

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// Event is one of a stream.
type Event struct {
	Type   string `json:"type"`
	Number int32  `json:"sequence_number"`

	Response *Object     `json:"response,omitempty"`
	Item     *outputItem `json:"item,omitempty"`
	ItemID   string      `json:"item_id,omitempty"`
	Output   *int        `json:"output_index,omitempty"`
	Content  *int        `json:"content_index,omitempty"`
	Part     *part       `json:"part,omitempty"`
	Delta    *string     `json:"delta,omitempty"`
	Text     *string     `json:"text,omitempty"`
	Logprobs *[]any      `json:"logprobs,omitempty"`
}

// before is how many events there are before that of token 0, which has the number before; an
// event of token i has before + i, so that numbers are the same in every telling.
const before = 4

// Begin are the events before the first token.
func (r *Response) Begin() []Event {
	r.status = InProgress
	item := r.item([]part{})
	return []Event{
		{Type: "response.created", Number: 0, Response: r.Object()},
		{Type: "response.in_progress", Number: 1, Response: r.Object()},
		{Type: "response.output_item.added", Number: 2, Output: new(0), Item: &item},
		{Type: "response.content_part.added", Number: 3, ItemID: item.ID, Output: new(0), Content: new(0), Part: new(textPart(""))},
	}
}

// Told takes a chunk in, and returns its event, if it has one.
func (r *Response) Told(c *pb.Chunk) []Event {
	r.Push(c)
	if c.Text == "" || len(c.TokenIds) == 0 {
		return nil
	}
	return []Event{{
		Type: "response.output_text.delta", Number: before + c.Index, ItemID: r.item(nil).ID, Output: new(0), Content: new(0), Delta: &c.Text, Logprobs: &[]any{},
	}}
}

// End are the events behind the last token.
func (r *Response) End() []Event {
	n, text := before+r.tokens, r.text.String()
	item := r.item([]part{textPart(text)})
	last := Event{Type: "response." + r.status, Response: r.Object()}
	events := []Event{
		{Type: "response.output_text.done", ItemID: item.ID, Output: new(0), Content: new(0), Text: &text, Logprobs: &[]any{}},
		{Type: "response.content_part.done", ItemID: item.ID, Output: new(0), Content: new(0), Part: &item.Content[0]},
		{Type: "response.output_item.done", Output: new(0), Item: &item},
		last,
	}
	if r.status == Failed || r.status == Cancelled {
		events = []Event{last}
	}
	for i := range events {
		events[i].Number = n + int32(i) // there are a few
	}
	return events
}
