package delivery

import (
	"github.com/switchyard/switchyard/pkg/request/calls"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// parseAs has thoughts and calls told apart from the text, if the request asked for that.
func (a *answer) parseAs(s *calls.Syntax) {
	if p := a.accept.Parse; p != nil && s != nil {
		a.parser = s.Read(calls.Options{Request: a.request, Tools: p.Tools, Single: p.Single, Begun: p.Begun})
	}
}

// say adds what a token says to its chunk.
func (a *answer) say(c *pb.Chunk, t *pb.Token) {
	if a.parser == nil {
		c.Text, a.stopped = a.show(a.text(t))
		return
	}
	if a.parser.Thinking() {
		a.reasoned++
	}
	mark := a.parser.MarkOf(t.Id)
	if mark == "" {
		a.parse(a.text(t))
	} else if a.parse(a.detok.Flush()); !a.stopped {
		a.parser.Text(a.stops.Flush()) // no stop string goes on through a mark
		a.parser.Mark(mark)
	}
	a.stopped = a.stopped || a.parser.Over()
	a.tell(c)
}

// parse parses what can be shown of a text.
func (a *answer) parse(text string) {
	text, a.stopped = a.show(text)
	a.parser.Text(text)
}

// tell adds what was parsed to a chunk.
func (a *answer) tell(c *pb.Chunk) {
	said := a.parser.Take()
	c.Text += said.Content
	if said.Reasoning == "" && len(said.Calls) == 0 {
		return
	}
	if c.Parsed == nil {
		c.Parsed = &pb.Parsed{}
	}
	p := c.Parsed
	p.ReasoningContent += said.Reasoning
	for _, call := range said.Calls {
		if n := len(p.ToolCalls); n > 0 && p.ToolCalls[n-1].Index == int32(call.Index) {
			p.ToolCalls[n-1].Arguments += call.Arguments
			continue
		}
		p.ToolCalls = append(p.ToolCalls, &pb.ToolCall{Index: int32(call.Index), Id: call.ID, Name: call.Name, Arguments: call.Arguments})
	}
}

// finish adds the rest of the text to the last chunk.
func (a *answer) finish(c *pb.Chunk, rest string) {
	if a.parser == nil {
		c.Text += rest
		return
	}
	a.parser.Text(rest)
	a.parser.End()
	a.tell(c)
}
