package openai

import (
	"slices"
	"strings"
	"unicode/utf8"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Head is what every part of a reply says.
type Head struct {
	ID, Object, Model, Fingerprint string
	Created                        int64
}

// Token is one token of an answer or of its prompt, with what was told of it.
type Token struct {
	ID      uint32
	Bytes   []byte // none: the model has no tokenizer
	Logprob float32
	Top     []*pb.TokenLogprob
	// First says that nothing is before it that it could follow from.
	First bool
	// Shown is what the text has of it, where that is not its bytes: nothing of what a tokenizer
	// puts around a text.
	Shown *[]byte
}

// advance is how many characters a token begins behind the last one that is whole, and the bytes
// that are no whole character yet.
func (t Token) advance(rest []byte) (characters int, left []byte) {
	more := t.Bytes
	if t.Shown != nil {
		more = *t.Shown
	}
	left = slices.Concat(rest, more)
	for len(left) > 0 && utf8.FullRune(left) {
		_, n := utf8.DecodeRune(left)
		left = left[n:]
		characters++
	}
	return characters, left
}

// Choice gathers one answer.
type Choice struct {
	Index     int
	text      strings.Builder
	reasoning strings.Builder
	calls     []*wholeCall
	tokens    []Token
	numbered  bool // the ids of its tokens are told
	ids       []uint32
	finish    string
	usage     *pb.Usage
	begun     bool
	thoughts  bool   // what it thinks is told
	offset    int    // of the tokens that were told, in characters of the text
	rest      []byte // bytes of the last ones that are no whole character yet
}

// Piece is what a chunk adds to an answer.
type Piece struct {
	Text   string
	Tokens []Token
	ids    []uint32
	// Reasoning and Calls are what was told apart from the text.
	Reasoning string
	Calls     []Call
	// First says that nothing of the answer was told before.
	First bool
	// Finish is why it has ended; empty: it goes on.
	Finish string
}

// Nothing says that there is nothing to tell.
func (p Piece) Nothing() bool {
	return p.Text == "" && p.Reasoning == "" && len(p.Calls) == 0 && len(p.Tokens) == 0 && len(p.ids) == 0 && p.Finish == ""
}

// textAlone says that a text is all there is to tell.
func (p Piece) textAlone() bool {
	text := p.Text
	p.Text = ""
	return text != "" && p.Nothing()
}

// Push takes a chunk of the answer in.
func (c *Choice) Push(chunk *pb.Chunk) Piece {
	p := Piece{Text: chunk.Text, Finish: chunk.FinishReason, Reasoning: chunk.GetParsed().GetReasoningContent(), Calls: CallsOf(chunk)}
	if !c.thoughts {
		p.Reasoning = ""
	}
	if c.numbered {
		p.ids = chunk.TokenIds
	}
	for _, l := range chunk.Logprobs {
		p.Tokens = append(p.Tokens, Token{ID: l.GetChosen().GetId(), Bytes: l.GetChosen().GetToken(), Logprob: l.GetChosen().GetLogprob(), Top: l.Top})
	}
	if chunk.Usage != nil {
		c.usage = chunk.Usage
	}
	if p.Finish == "stop" && len(c.calls)+len(p.Calls) > 0 {
		p.Finish = "tool_calls"
	}
	return c.tell(p)
}

// Echo puts a prompt before the answer.
func (c *Choice) Echo(text string, tokens []Token) Piece {
	return c.tell(Piece{Text: text, Tokens: tokens})
}

func (c *Choice) tell(p Piece) Piece {
	if p.Nothing() {
		return p
	}
	p.First, c.begun = !c.begun, true
	c.text.WriteString(p.Text)
	c.reasoning.WriteString(p.Reasoning)
	for _, part := range p.Calls {
		c.calls = joined(c.calls, part)
	}
	c.tokens, c.ids = append(c.tokens, p.Tokens...), append(c.ids, p.ids...)
	c.finish = p.Finish
	return p
}

// Usage counts the tokens of a reply.
type Usage struct {
	PromptTokens     int32          `json:"prompt_tokens"`
	CompletionTokens int32          `json:"completion_tokens"`
	TotalTokens      int32          `json:"total_tokens"`
	Prompt           *promptDetails `json:"prompt_tokens_details,omitempty"`
	Completion       *answerDetails `json:"completion_tokens_details,omitempty"`
	Extra
}

type promptDetails struct {
	CachedTokens int32 `json:"cached_tokens"`
}

type answerDetails struct {
	ReasoningTokens int32 `json:"reasoning_tokens"`
}

// UsageOf adds up what the answers took; n of them share each prompt.
func UsageOf(choices []*Choice, n int) *Usage {
	u := &Usage{Prompt: &promptDetails{}, Completion: &answerDetails{}}
	for i, c := range choices {
		if c.usage == nil {
			continue
		}
		if i%n == 0 {
			u.PromptTokens += c.usage.PromptTokens
			u.Prompt.CachedTokens += c.usage.GetCachedTokens()
		}
		u.CompletionTokens += c.usage.CompletionTokens
		u.Completion.ReasoningTokens += c.usage.GetReasoningTokens()
		u.Add(c.usage)
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}
