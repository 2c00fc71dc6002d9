package record

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Asked is a sequence whose lengths are given.
type Asked struct {
	Domain string
	IDs    []uint32 // the prompt
	// Answer is how many rows of the answer are recorded: all of its tokens but the last, which
	// no step computes. An end of text does not end it.
	Answer int
}

// checkAsked says what is wrong with what is asked for.
func (s *Settings) checkAsked() error {
	spec := &s.Model.Spec
	for i, a := range s.Asked {
		switch {
		case len(a.IDs) == 0 || a.Answer < 0:
			return fmt.Errorf("sequence %d has a prompt of %d tokens and an answer of %d; it needs a prompt", i+1, len(a.IDs), a.Answer)
		case len(a.IDs)+a.Answer >= spec.MaxPositions:
			return fmt.Errorf("sequence %d has a prompt of %d tokens, %d rows of an answer and its last token; the model was made for at most %d positions", i+1, len(a.IDs), a.Answer, spec.MaxPositions)
		}
	}
	if spec.Task() != model.Continue {
		return fmt.Errorf("sequences with given answers are asked of a model with an encoder")
	}
	return nil
}

// takeAsked makes them the prompts, and the longest of them the settings' lengths.
func (r *recorder) takeAsked() {
	known := map[string]int{}
	r.PromptTokens, r.AnswerTokens = 0, 0
	for _, a := range r.Asked {
		at, ok := known[a.Domain]
		if !ok {
			at = len(r.domains)
			known[a.Domain], r.domains = at, append(r.domains, a.Domain)
		}
		r.prompts = append(r.prompts, prompt{at, a.IDs, len(a.IDs)})
		r.PromptTokens, r.AnswerTokens = max(r.PromptTokens, len(a.IDs)), max(r.AnswerTokens, a.Answer)
	}
	// Nothing is longer than the model, whatever the longest prompt and the longest answer are together.
	r.PromptTokens = min(r.PromptTokens, r.Model.Spec.MaxPositions-r.AnswerTokens-1)
}

// answerAsked generates answers one by one, each of its own length.
func (r *recorder) answerAsked(ctx context.Context) error {
	for i, a := range r.Asked {
		r.Progress("answering request %d of %d…", i+1, len(r.Asked))
		if err := r.answerOne(ctx, i, a); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) answerOne(ctx context.Context, number int, a Asked) error {
	sequences, err := r.open(r.prompts[number:number+1], number)
	if err != nil {
		return err
	}
	defer sequences[0].Close()
	for range a.Answer {
		if err := r.runner.Step(ctx, sequences); err != nil {
			return err
		}
	}
	r.prompts[number].ids = sequences[0].IDs
	return nil
}
