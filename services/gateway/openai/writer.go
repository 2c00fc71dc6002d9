package openai

// Writer writes replies of one kind: values that are encoded as JSON.
type Writer interface {
	// whole is a reply that comes at once.
	whole(choices []*Choice, u *Usage) any
	// part are the events of what a chunk adds.
	part(c *Choice, p Piece) []any
	// usage is the event that only counts tokens.
	usage(u *Usage) any
}

// Objects of replies.
const (
	chatObject, chatChunkObject = "chat.completion", "chat.completion.chunk"
	completionObject            = "text_completion"
)

// NewWriter writes replies to an Ask.
func NewWriter(a *Ask, h Head) *Reply {
	var w Writer
	switch {
	case !a.Chat:
		h.Object = completionObject
		h.ID = "cmpl-" + h.ID
		w = completionWriter{h, a.Logprobs != nil, a.Numbered}
	case a.Stream:
		h.ID, h.Object = "chatcmpl-"+h.ID, chatChunkObject
		w = chatWriter{h, a.Logprobs != nil, a.Numbered}
	default:
		h.ID, h.Object = "chatcmpl-"+h.ID, chatObject
		w = chatWriter{h, a.Logprobs != nil, a.Numbered}
	}
	r := &Reply{ask: a, writer: w, text: newTextEvent(h, a.Chat)}
	for i := range a.Answers() {
		r.Choices = append(r.Choices, &Choice{Index: i, numbered: a.IDs, thoughts: !a.Chat || a.Thoughts})
	}
	return r
}

// Reply is all answers of one Ask.
type Reply struct {
	Choices []*Choice

	ask    *Ask
	writer Writer
	text   *textEvent
	events [1]any
}

// Whole returns the reply once all answers have ended.
func (r *Reply) Whole() any { return r.writer.whole(r.Choices, UsageOf(r.Choices, r.ask.N)) }

// Parts returns the events of what came to an answer. They are good until the next call.
func (r *Reply) Parts(c *Choice, p Piece) []any {
	switch {
	case p.Nothing():
		return nil
	case p.textAlone() && (!p.First || !r.ask.Chat): // the first of a chat has the role
		r.text.index, r.text.text = c.Index, p.Text
		r.events[0] = r.text
		return r.events[:]
	}
	return r.writer.part(c, p)
}

// Counted returns the last event, if one that counts tokens is wanted.
func (r *Reply) Counted() (event any, wanted bool) {
	return r.writer.usage(UsageOf(r.Choices, r.ask.N)), r.ask.Usage
}
