package edge

import (
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/calls"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// calling is what a prompt asks of calls and thoughts.
type calling struct {
	tools  []calls.Tool
	choice calls.Choice
}

// checkCalls finds what cannot be of what a prompt asks of calls.
func (m Model) checkCalls(p *pb.Prompt) (c calling, err error) {
	if c.choice, err = calls.ReadChoice(p.ToolChoice); err != nil {
		return c, Errorf(BadRequest, "%v", err)
	}
	if !c.choice.Forced {
		return c, nil
	}
	if c.tools, err = calls.Tools(p.Tools); err != nil {
		return c, Errorf(BadRequest, "%v", err)
	}
	switch {
	case len(p.Messages) == 0:
		return c, Errorf(BadRequest, "tool_choice has a tool be called: that needs messages and tools")
	case p.Grammar != nil:
		return c, Errorf(BadRequest, "tool_choice has a tool be called, and grammar says another form of the answer: leave one out")
	}
	return c, m.mayKeep(p, "tool_choice")
}

// mayKeep refuses a form of answers where none can be kept.
func (m Model) mayKeep(p *pb.Prompt, field string) error {
	switch {
	case m.Task == model.Fill:
		return Errorf(BadRequest, "%s is set; this model fills masks, none before another: leave it out", field)
	case m.EncodeText == nil:
		return Errorf(BadRequest, "%s is set; the model has no tokenizer, so its answers have no text: leave it out", field)
	case p.IgnoreEos || p.GetMinTokens() > 0:
		return Errorf(BadRequest, "%s says where an answer ends: leave out ignore_eos and min_tokens", field)
	case len(m.stopIDs(p)) == 0:
		return Errorf(BadRequest, "%s is set, and the model names no end-of-sequence token: give one in stop_token_ids", field)
	}
	return nil
}

// call sets what a sequence's answer has to call, and returns how it is parsed; nil: it is not.
func (m Model) call(p *pb.Prompt, c calling, seq *pb.Sequence) (*pb.Parse, error) {
	begun := ""
	if m.Calls != nil && len(p.Messages) > 0 {
		begun = m.Calls.Begun(m.end(seq.PromptIds))
	}
	if c.choice.Forced {
		forms, err := m.Calls.Forms(c.tools, c.choice.Only, begun)
		if err != nil {
			return nil, Errorf(BadRequest, "%v", err)
		}
		seq.Calls = forms
		if err := m.Grammars.Check(SpecOf(seq)); err != nil {
			return nil, Errorf(BadRequest, "%v", err)
		}
	}
	if !p.Parse || m.Calls == nil {
		return nil, nil
	}
	return &pb.Parse{Tools: p.Tools != "", Single: p.ParallelToolCalls != nil && !*p.ParallelToolCalls, Begun: begun, Forced: c.choice.Forced}, nil
}

// endIDs are so many ids as hold the end of a prompt.
const endIDs = 8

// end returns the end of a prompt's text, special tokens included.
func (m Model) end(ids []uint32) string {
	if m.DecodeIDs == nil {
		return ""
	}
	return m.DecodeIDs(ids[max(0, len(ids)-endIDs):])
}
