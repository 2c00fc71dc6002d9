package delivery

import (
	"github.com/switchyard/switchyard/pkg/request/calls"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// parseAs has thoughts and calls told apart from the text, if the request asked for that. Stop
// strings are looked for in what is left as text.
func (a *answer) parseAs(s *calls.Syntax) {
	p := a.accept.Parse
	if p == nil || s == nil {
		return
	}
	show := a.showContent
	if p.Forced {
		show = func(string, bool) (string, bool) { return "", false } // of a call that was cut
	}
	a.parser = s.Read(calls.Options{Request: a.request, Tools: p.Tools, Single: p.Single, Begun: p.Begun, Show: show})
}

// showContent is show for a piece of content; no stop string goes on behind the last one.
func (a *answer) showContent(text string, last bool) (shown string, stopped bool) {
	if shown, stopped = a.show(text); last {
		shown += a.stops.Flush()
	}
	return shown, stopped
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
	if mark := a.parser.MarkOf(t.Id); mark == "" {
		a.parser.Text(a.text(t))
	} else {
		a.parser.Text(a.detok.Flush())
		a.parser.Mark(mark)
	}
	a.stopped = a.parser.Over()
	a.tell(c)
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
		shown, _ := a.show(rest)
		c.Text += shown + a.stops.Flush()
		return
	}
	a.parser.Text(rest)
	a.parser.End()
	a.tell(c)
}
