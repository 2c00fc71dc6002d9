// Package record runs a model over texts by direct calls, and keeps what its
// gates saw and chose (pkg/compute/recording).
package record

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/internal/textfile"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
)

// Settings say what is recorded.
type Settings struct {
	Model *model.Model
	Pool  *pool.Pool
	// Texts are files, one a domain: FILE or NAME=FILE.
	Texts []string
	// Asked are sequences in place of Texts: their answers have the length that is asked for.
	Asked []Asked
	// Tokens bounds the rows of a domain, by about a sequence.
	Tokens int
	// PromptTokens and AnswerTokens are the most of one sequence.
	PromptTokens, AnswerTokens int
	Wire                       tensor.Wire
	Seed                       uint64
	// Inputs also keeps the gates' inputs.
	Inputs bool
	// Features also keeps the positions of the keys that counted most in attention.
	Features bool
	// Progress hears what is going on.
	Progress func(format string, args ...any)
}

const (
	// batch is how many sequences are computed together, at most.
	batch = 32
	// kvBytes bounds the memory for keys and values.
	kvBytes = 1 << 30
	// temperature makes answers of one text differ in their words, as served ones do.
	temperature = 0.7
)

// Summary is what was recorded.
type Summary struct {
	Rows      int            `json:"rows"`
	Sequences int            `json:"sequences"`
	Domains   map[string]int `json:"domains"` // rows of each
}

// Note says of what settings a recording is, to tell it from others. Files are
// named without their folders.
func (s *Settings) Note() string {
	var texts []string
	for _, text := range s.Texts {
		name, path := textfile.SplitName(text)
		texts = append(texts, name+"="+filepath.Base(path))
	}
	return fmt.Sprintf("texts %s; %d tokens of each, prompts of %d, answers of %d, wire %s, temperature %g, seed %d",
		strings.Join(texts, " "), s.Tokens, s.PromptTokens, s.AnswerTokens, s.Wire, temperature, s.Seed)
}

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	spec := &s.Model.Spec
	switch {
	case len(s.Asked) > 0:
		return s.checkAsked()
	case len(s.Texts) == 0:
		return errors.New("there are no texts; name a file for each domain")
	case s.Tokens < 1 || s.PromptTokens < 1 || s.AnswerTokens < 0:
		return fmt.Errorf("%d tokens of a domain, %d of a prompt and %d of an answer are wanted; prompts need at least one", s.Tokens, s.PromptTokens, s.AnswerTokens)
	case s.AnswerTokens > 0 && spec.Task() != model.Continue:
		return fmt.Errorf("answers of %d tokens are wanted of a model with an encoder, of which prompts alone are recorded; have 0", s.AnswerTokens)
	case s.PromptTokens+s.AnswerTokens > spec.MaxPositions:
		return fmt.Errorf("prompts of %d tokens with answers of %d do not fit: the model was made for at most %d positions", s.PromptTokens, s.AnswerTokens, spec.MaxPositions)
	case spec.MoELayers() == 0:
		return errors.New("the model has no layers with experts")
	}
	return nil
}

// recorder is a recording on its way.
type recorder struct {
	Settings
	domains []string
	prompts []prompt
	runner  *direct.Runner
	writer  *recording.Writer
	layers  map[int]int // index among the layers with experts
	at      int         // row of the recording that the step's first row is; -1: nothing is kept
}

// Run records to the file at path.
func Run(ctx context.Context, s Settings, path string) (*Summary, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	r := &recorder{Settings: s, layers: map[int]int{}, at: -1}
	if len(s.Asked) > 0 {
		r.takeAsked()
	} else if err := r.choosePrompts(); err != nil {
		return nil, err
	}
	var err error
	if r.runner, err = direct.New(s.Model, s.Pool, direct.Settings{
		Wire: s.Wire, MaxPositions: r.PromptTokens + r.AnswerTokens + 1, KVBytes: r.kvBudget(), Routed: r.keep,
	}); err != nil {
		return nil, err
	}
	if s.Features {
		if err := r.runner.KeepStrongest(); err != nil {
			return nil, err
		}
	}
	if err := r.answer(ctx); err != nil {
		return nil, err
	}
	return r.write(ctx, path)
}

func (r *recorder) kvBudget() int64 { return max(kvBytes, r.sequenceBytes()) }

func (r *recorder) sequenceBytes() int64 {
	shape := kvcache.ShapeOf(&r.Model.Spec)
	return int64(shape.Need(r.PromptTokens+r.AnswerTokens+1)) * shape.PageBytes()
}

func (r *recorder) together() int { return int(min(batch, r.kvBudget()/r.sequenceBytes())) }

func (r *recorder) choosePrompts() error {
	t, err := tokenizer.Open(r.Model.File)
	if err != nil {
		return err
	}
	for i, text := range r.Texts {
		name, path := textfile.SplitName(text)
		r.Progress("reading %s…", path)
		if slices.Contains(r.domains, name) {
			return fmt.Errorf("%w: two files are of domain %q; name one of them otherwise, as NAME=FILE", textfile.ErrTexts, name)
		}
		documents, err := textfile.Read(path)
		if err != nil {
			return err
		}
		list, err := r.choose(t, i, documents)
		if err != nil {
			return fmt.Errorf("texts %s: %w", path, err)
		}
		r.domains, r.prompts = append(r.domains, name), append(r.prompts, list...)
	}
	return nil
}

// answer generates what follows each prompt, up to an end of text or what is asked for.
// Nothing is kept yet: kernels do not mind what a row is computed with, so that a prefill of
// prompt and answer sees the bits of the decode.
func (r *recorder) answer(ctx context.Context) error {
	if r.AnswerTokens == 0 {
		return nil
	}
	if len(r.Asked) > 0 {
		return r.answerAsked(ctx)
	}
	for done := 0; done < len(r.prompts); done += r.together() {
		r.Progress("answering prompt %d of %d…", done+1, len(r.prompts))
		group := r.prompts[done:min(done+r.together(), len(r.prompts))]
		sequences, err := r.open(group, done)
		if err != nil {
			return err
		}
		for range r.AnswerTokens {
			if err = r.runner.Step(ctx, sequences); err != nil {
				break
			}
		}
		for i, s := range sequences {
			if err == nil {
				group[i].ids = r.cut(s.IDs, group[i].length)
			}
			s.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cut ends ids before the first end of text of the answer, and before the last
// token, which no step has computed.
func (r *recorder) cut(ids []uint32, length int) []uint32 {
	answer := ids[length : len(ids)-1]
	if end := slices.IndexFunc(answer, func(id uint32) bool { return slices.Contains(r.Model.Spec.EOS, id) }); end >= 0 {
		answer = answer[:end]
	}
	return ids[:length+len(answer)]
}

// open makes sequences of prompts, the first of which has a number.
func (r *recorder) open(prompts []prompt, first int) (list []*direct.Sequence, err error) {
	for i, p := range prompts {
		params := sampling.Params{Temperature: temperature, TopP: 1, Seed: uint32(r.Seed) + uint32(first+i), Logprobs: -1}
		s, err := r.runner.AddPrompt(r.asked(p.ids), r.AnswerTokens+1, params)
		if err != nil {
			for _, s := range list {
				s.Close()
			}
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// asked are ids as the model reads them: behind an encoder the decoder reads the same ones, so that a row has one token
// in all layers.
func (r *recorder) asked(ids []uint32) direct.Prompt {
	switch r.Model.Spec.Task() {
	case model.Fill:
		return direct.Prompt{IDs: ids, Source: len(ids)}
	case model.Answer:
		return direct.Prompt{IDs: slices.Concat(ids, ids), Source: len(ids)}
	}
	return direct.Prompt{IDs: ids}
}
