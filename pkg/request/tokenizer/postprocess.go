package tokenizer

import (
	"encoding/json"
	"fmt"
)

// frame is what a post_processor puts around a single text.
type frame struct{ before, after []uint32 }

// parseFrame reads TemplateProcessing and its older forms, BertProcessing and
// RobertaProcessing; ByteLevel changes no ids. It is nil where no template is
// given.
func parseFrame(raw json.RawMessage) (*frame, error) {
	steps, err := readSteps(raw, "processors")
	if err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	var f *frame
	for _, step := range steps {
		switch {
		case step.Type == "ByteLevel":
			continue
		case f != nil:
			return nil, fmt.Errorf("post_processor: %q after another one is not supported", step.Type)
		case step.Type == "TemplateProcessing":
			f, err = parseTemplateProcessing(step.raw)
		case step.Type == "BertProcessing", step.Type == "RobertaProcessing":
			f, err = parseBertProcessing(step.raw)
		default:
			return nil, fmt.Errorf("post_processor: type %q is not supported; supported are Sequence, TemplateProcessing, BertProcessing, RobertaProcessing and ByteLevel", step.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("post_processor: %s: %w", step.Type, err)
		}
	}
	return f, nil
}

func parseTemplateProcessing(raw json.RawMessage) (*frame, error) {
	var step struct {
		Single []struct {
			SpecialToken *struct{ ID string }
			Sequence     *struct{ ID string }
		}
		Tokens map[string]struct {
			IDs []uint32 `json:"ids"`
		} `json:"special_tokens"`
	}
	if err := json.Unmarshal(raw, &step); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	f, side := &frame{}, (*[]uint32)(nil)
	side = &f.before
	for _, part := range step.Single {
		switch {
		case part.Sequence != nil && side == &f.before:
			side = &f.after
		case part.SpecialToken != nil && step.Tokens[part.SpecialToken.ID].IDs != nil:
			*side = append(*side, step.Tokens[part.SpecialToken.ID].IDs...)
		default:
			return nil, fmt.Errorf("single must be special tokens around one sequence")
		}
	}
	if side == &f.before {
		return nil, fmt.Errorf("single holds no sequence")
	}
	return f, nil
}

// parseBertProcessing reads two tokens with their ids: what begins a text, and
// what ends it.
func parseBertProcessing(raw json.RawMessage) (*frame, error) {
	var step struct{ CLS, SEP []json.RawMessage }
	if err := json.Unmarshal(raw, &step); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	id := func(pair []json.RawMessage) (ids []uint32, err error) {
		if len(pair) != 2 {
			return nil, fmt.Errorf("cls and sep must be a token and its id each")
		}
		ids = make([]uint32, 1)
		return ids, json.Unmarshal(pair[1], &ids[0])
	}
	before, err := id(step.CLS)
	if err != nil {
		return nil, err
	}
	after, err := id(step.SEP)
	return &frame{before, after}, err
}
