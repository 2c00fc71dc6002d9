package openai

import (
	"strings"
)

// Chat is the reply to a chat, whole or a part of it.
type Chat struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Choices     []ChatChoice `json:"choices"`
	Usage       *Usage       `json:"usage,omitempty"`
	Fingerprint string       `json:"system_fingerprint"`
}

// ChatChoice is one answer of a chat, or a part of it.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      *Message      `json:"message,omitempty"`
	Delta        *Delta        `json:"delta,omitempty"`
	TokenIDs     []uint32      `json:"token_ids,omitempty"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

// Message is a whole answer.
type Message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall is a call of a tool, or a part of it.
type ToolCall struct {
	Index    *int     `json:"index,omitempty"`
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

func messageOf(c *Choice) *Message {
	m := &Message{Role: "assistant", Content: new(c.text.String())}
	if c.reasoning.Len() > 0 {
		m.Reasoning = new(c.reasoning.String())
	}
	for _, call := range c.calls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: call.ID, Type: "function", Function: function{call.Name, call.arguments.String()}})
	}
	if len(m.ToolCalls) > 0 && strings.TrimSpace(*m.Content) == "" {
		m.Content = nil
	}
	return m
}

// Delta is a part of an answer.
type Delta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ChatLogprobs are those of a chat's tokens.
type ChatLogprobs struct {
	Content []ChatLogprob `json:"content"`
	Refusal *string       `json:"refusal"`
}

// ChatLogprob is that of one token, and of those that could have been in its place.
type ChatLogprob struct {
	candidate
	Top []candidate `json:"top_logprobs"`
}

type candidate struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func candidateOf(id uint32, token []byte, logprob float32, numbered bool) candidate {
	numbers := make([]int, len(token))
	for i, b := range token {
		numbers[i] = int(b)
	}
	text := strings.ToValidUTF8(string(token), "\uFFFD")
	if numbered {
		text = numberText(id)
	}
	return candidate{text, logprob, numbers}
}

func (w chatWriter) logprobsOf(tokens []Token) *ChatLogprobs {
	if !w.logprobs {
		return nil
	}
	out := &ChatLogprobs{Content: []ChatLogprob{}}
	for _, t := range tokens {
		one := ChatLogprob{candidate: candidateOf(t.ID, t.Bytes, t.Logprob, w.numbered), Top: []candidate{}}
		for _, top := range t.Top {
			one.Top = append(one.Top, candidateOf(top.Id, top.Token, top.Logprob, w.numbered))
		}
		out.Content = append(out.Content, one)
	}
	return out
}

func (h Head) chat(choices []ChatChoice, u *Usage) Chat {
	return Chat{h.ID, h.Object, h.Created, h.Model, choices, u, h.Fingerprint}
}

// chatWriter writes replies to a chat.
type chatWriter struct {
	head               Head
	logprobs, numbered bool
}

func (w chatWriter) whole(choices []*Choice, u *Usage) any {
	all := make([]ChatChoice, len(choices))
	for i, c := range choices {
		all[i] = ChatChoice{
			Index: c.Index, Message: messageOf(c), TokenIDs: c.ids, Logprobs: w.logprobsOf(c.tokens), FinishReason: &c.finish,
		}
	}
	return w.head.chat(all, u)
}

// part writes the role with the first token, and the end by itself.
func (w chatWriter) part(c *Choice, p Piece) (out []any) {
	delta := &Delta{}
	if p.First {
		delta.Role, delta.Content = "assistant", new("")
	}
	if p.Text != "" || len(p.Tokens) > 0 {
		delta.Content = &p.Text
	}
	if p.Reasoning != "" {
		delta.Reasoning = &p.Reasoning
	}
	if delta.Content != nil || delta.Reasoning != nil || len(p.ids) > 0 {
		one := ChatChoice{Index: c.Index, Delta: delta, TokenIDs: p.ids}
		if len(p.Tokens) > 0 {
			one.Logprobs = w.logprobsOf(p.Tokens)
		}
		out = append(out, w.one(one))
	}
	for _, call := range p.Calls {
		out = append(out, w.call(c, call)...)
	}
	if p.Finish != "" {
		out = append(out, w.one(ChatChoice{Index: c.Index, Delta: &Delta{}, FinishReason: &p.Finish}))
	}
	return out
}

// call writes a call's name, then its arguments.
func (w chatWriter) call(c *Choice, call Call) (out []any) {
	told := func(t ToolCall) {
		t.Index = &call.Index
		out = append(out, w.one(ChatChoice{Index: c.Index, Delta: &Delta{ToolCalls: []ToolCall{t}}}))
	}
	if call.ID != "" {
		told(ToolCall{ID: call.ID, Type: "function", Function: function{Name: call.Name}})
	}
	if call.Arguments != "" {
		told(ToolCall{Function: function{Arguments: call.Arguments}})
	}
	return out
}

func (w chatWriter) one(c ChatChoice) Chat { return w.head.chat([]ChatChoice{c}, nil) }

func (w chatWriter) usage(u *Usage) any { return w.head.chat([]ChatChoice{}, u) }
