package edge

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/model"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Positions returns the most positions of the KV cache that a sequence needs: those
// that an encoder reads, or those of the decoder, whichever are more.
func Positions(s *pb.Sequence) int {
	source := int(s.Source)
	if len(s.Fill) > 0 {
		return source // what fills them is at places that are there
	}
	return max(source, len(s.PromptIds)-source+int(s.MaxTokens))
}

// prompt returns what the model's task makes of a prompt's ids: what an encoder reads
// of them, which are filled, and what a decoder begins with.
func (m Model) prompt(p *pb.Prompt, ids []uint32) (*pb.Sequence, error) {
	if err := m.checkTask(p, len(ids)); err != nil {
		return nil, err
	}
	s := &pb.Sequence{PromptIds: ids}
	switch m.Task {
	case model.Continue:
		return s, nil
	case model.Fill:
		s.Fill = m.masks(ids)
	case model.Answer:
		begin, err := m.begin(p)
		if err != nil {
			return nil, err
		}
		s.PromptIds = slices.Concat(ids, begin)
	}
	s.Source, s.TokenTypes = uint32(len(ids)), p.TokenTypeIds
	return s, nil
}

// checkTask finds what the model's task has no use for.
func (m Model) checkTask(p *pb.Prompt, n int) error {
	switch {
	case len(p.DecoderInputIds) > 0 && m.Task != model.Answer:
		return Errorf(BadRequest, "decoder_input_ids is set; this model has no decoder beside an encoder")
	case len(p.DecoderInputIds) > m.MaxLen:
		return Errorf(BadPrompt, "decoder_input_ids has %d tokens; the context holds %d", len(p.DecoderInputIds), m.MaxLen)
	case m.Task != model.Continue && n > m.MaxLen:
		return Errorf(BadPrompt, "the prompt has %d tokens; the context holds %d", n, m.MaxLen)
	case len(p.TokenTypeIds) > 0 && (m.Types == 0 || m.Task == model.Continue):
		return Errorf(BadRequest, "token_type_ids is set; this model does not tell segments apart")
	case len(p.TokenTypeIds) > 0 && len(p.TokenTypeIds) != n:
		return Errorf(BadRequest, "token_type_ids has %d numbers for a prompt of %d tokens", len(p.TokenTypeIds), n)
	}
	for i, t := range p.TokenTypeIds {
		if int64(t) >= int64(m.Types) {
			return Errorf(BadRequest, "token_type_ids[%d] is %d; the model has %d segments", i, t, m.Types)
		}
	}
	return nil
}

func (m Model) masks(ids []uint32) (at []uint32) {
	for i, id := range ids {
		if int(id) == m.Mask {
			at = append(at, uint32(i))
		}
	}
	return at
}

// begin returns what the decoder of an answer begins with.
func (m Model) begin(p *pb.Prompt) ([]uint32, error) {
	switch {
	case len(p.DecoderInputIds) > 0:
		return p.DecoderInputIds, nil
	case m.Start < 0:
		return nil, Errorf(BadRequest, "the model does not say what its decoder begins with (decoder_start_token_id); send decoder_input_ids")
	}
	return []uint32{uint32(m.Start)}, nil
}

// fills returns how many masks are filled: all, or the first max_tokens of them.
func (m Model) fills(p *pb.Prompt, masks int) (int, error) {
	least := 1
	if p.Score != "" {
		least = 0
	}
	switch {
	case masks < least && m.Mask < 0:
		return 0, Errorf(BadRequest, "nothing says which token of this model is the mask (a tokenizer with [MASK], or mask_token_id in config.json); only scores can be asked for")
	case masks < least:
		return 0, Errorf(BadPrompt, "the prompt has no mask to fill (token %d)", m.Mask)
	case p.MaxTokens == nil:
		return masks, nil
	case int(*p.MaxTokens) < least:
		return 0, Errorf(BadRequest, "max_tokens is %d; it must be %d or more", *p.MaxTokens, least)
	}
	return min(int(*p.MaxTokens), masks), nil
}

// fits reports whether a sequence is one of the model's task.
func (m Model) fits(s *pb.Sequence) bool {
	n, source := len(s.PromptIds), int(s.Source)
	switch m.Task {
	case model.Continue:
		return source == 0 && len(s.Fill) == 0 && len(s.TokenTypes) == 0
	case model.Fill:
		return source == n && int(s.MaxTokens) <= len(s.Fill)
	}
	return source > 0 && source < n && len(s.Fill) == 0
}

// checkSource finds what of a sequence its encoder would stumble over.
func (m Model) checkSource(s *pb.Sequence) error {
	if !m.fits(s) {
		return fmt.Errorf("%d of %d tokens for an encoder, and %d to fill with %d: another model's sequence",
			s.Source, len(s.PromptIds), len(s.Fill), s.MaxTokens)
	}
	for i, at := range s.Fill {
		if at >= s.Source || i > 0 && at <= s.Fill[i-1] {
			return fmt.Errorf("place %d to fill is not in order, or outside of %d tokens", at, s.Source)
		}
	}
	if len(s.TokenTypes) > int(s.Source) {
		return fmt.Errorf("%d segments of %d tokens", len(s.TokenTypes), s.Source)
	}
	for _, t := range s.TokenTypes {
		if int64(t) >= int64(m.Types) {
			return fmt.Errorf("segment %d of %d", t, m.Types)
		}
	}
	return nil
}
