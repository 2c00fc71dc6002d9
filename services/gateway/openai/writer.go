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
		w = completionWriter{h, a.Logprobs != nil}
	case a.Stream:
		h.ID, h.Object = "chatcmpl-"+h.ID, chatChunkObject
		w = chatWriter{h, a.Logprobs != nil}
	default:
		h.ID, h.Object = "chatcmpl-"+h.ID, chatObject
		w = chatWriter{h, a.Logprobs != nil}
	}
	r := &Reply{ask: a, writer: w}
	for i := range a.Answers() {
		r.Choices = append(r.Choices, &Choice{Index: i, numbered: a.IDs})
	}
	return r
}

// Reply is all answers of one Ask.
type Reply struct {
	Choices []*Choice

	ask    *Ask
	writer Writer
}

// Whole is the reply once all answers have ended.
func (r *Reply) Whole() any { return r.writer.whole(r.Choices, UsageOf(r.Choices, r.ask.N)) }

// Parts are the events of what came to an answer.
func (r *Reply) Parts(c *Choice, p Piece) []any {
	if p.Nothing() {
		return nil
	}
	return r.writer.part(c, p)
}

// Counted is the last event, if one that counts tokens is wanted.
func (r *Reply) Counted() (event any, wanted bool) {
	return r.writer.usage(UsageOf(r.Choices, r.ask.N)), r.ask.Usage
}
