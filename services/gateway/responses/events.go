package responses

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// Event is one of a stream.
type Event struct {
	Type   string `json:"type"`
	Number int32  `json:"sequence_number"`

	Response  *Object     `json:"response,omitempty"`
	Item      *outputItem `json:"item,omitempty"`
	ItemID    string      `json:"item_id,omitempty"`
	Output    *int        `json:"output_index,omitempty"`
	Content   *int        `json:"content_index,omitempty"`
	Part      *part       `json:"part,omitempty"`
	Delta     *string     `json:"delta,omitempty"`
	Text      *string     `json:"text,omitempty"`
	Name      string      `json:"name,omitempty"`
	Arguments *string     `json:"arguments,omitempty"`
	Logprobs  *[]any      `json:"logprobs,omitempty"`
}

// tell counts events. A number follows from the chunks before it, so that it is the same in
// every telling.
func (r *Response) tell(events ...Event) []Event {
	for i := range events {
		events[i].Number = r.next
		r.next++
	}
	return events
}

// Begin returns the events before the first token.
func (r *Response) Begin() []Event {
	r.status = InProgress
	return r.tell(Event{Type: "response.created", Response: r.Object()}, Event{Type: "response.in_progress", Response: r.Object()})
}

// Told takes a chunk in, and returns the events of what it adds.
func (r *Response) Told(c *pb.Chunk) (out []Event) {
	for _, p := range partsOf(c) {
		if n := len(r.items); n == 0 || r.items[n-1].ended(p) {
			out = append(out, r.endItem()...)
			out = append(out, r.begin(p)...)
		}
		out = append(out, r.add(p)...)
	}
	r.count(c)
	return out
}

// begin begins an item.
func (r *Response) begin(p piece) []Event {
	r.items = append(r.items, &item{kind: p.kind, id: r.itemID(p.kind), call: p.call, name: p.name, status: InProgress, sealed: r.shown.Sealed})
	at, it := new(len(r.items)-1), r.items[len(r.items)-1]
	shown := it.shown()
	events := []Event{{Type: "response.output_item.added", Output: at, Item: &shown}}
	if p.kind == kindMessage {
		events = append(events, Event{Type: "response.content_part.added", ItemID: it.id, Output: at, Content: new(0), Part: new(textPart("output_text", ""))})
	}
	return r.tell(events...)
}

// add adds to the last item.
func (r *Response) add(p piece) []Event {
	it := r.items[len(r.items)-1]
	it.text.WriteString(p.text)
	if p.text == "" {
		return nil
	}
	e := Event{Type: deltas[it.kind], ItemID: it.id, Output: new(len(r.items) - 1), Delta: &p.text}
	if it.kind != kindCall {
		e.Content = new(0)
	}
	if it.kind == kindMessage {
		e.Logprobs = &[]any{}
	}
	return r.tell(e)
}

var deltas = map[string]string{kindMessage: "response.output_text.delta", kindThoughts: "response.reasoning_text.delta", kindCall: "response.function_call_arguments.delta"}

// endItem ends the last item, if there is one.
func (r *Response) endItem() []Event {
	if len(r.items) == 0 {
		return nil
	}
	it, at := r.items[len(r.items)-1], new(len(r.items)-1)
	it.status = Completed
	if r.status == Incomplete || r.status == Failed || r.status == Cancelled {
		it.status = Incomplete
	}
	text, shown := it.text.String(), it.shown()
	var events []Event
	switch it.kind {
	case kindMessage:
		events = []Event{
			{Type: "response.output_text.done", ItemID: it.id, Output: at, Content: new(0), Text: &text, Logprobs: &[]any{}},
			{Type: "response.content_part.done", ItemID: it.id, Output: at, Content: new(0), Part: &(*shown.Content)[0]},
		}
	case kindThoughts:
		events = []Event{{Type: "response.reasoning_text.done", ItemID: it.id, Output: at, Content: new(0), Text: &text}}
	case kindCall:
		events = []Event{{Type: "response.function_call_arguments.done", ItemID: it.id, Output: at, Name: it.name, Arguments: &text}}
	}
	return r.tell(append(events, Event{Type: "response.output_item.done", Output: at, Item: &shown})...)
}

// End returns the events behind the last token.
func (r *Response) End() (out []Event) {
	if r.status == Completed || r.status == Incomplete {
		if len(r.items) == 0 {
			out = r.begin(piece{kind: kindMessage})
		}
		out = append(out, r.endItem()...)
	}
	return append(out, r.tell(Event{Type: "response." + r.status, Response: r.Object()})...)
}
