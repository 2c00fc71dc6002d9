package main

import (
	"context"
	"errors"

	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/tokenize"
)

// TokenizeCmd turns texts into token ids and back, without a server.
type TokenizeCmd struct {
	Tokenizer string `env:"-" required:"" help:"Folder of a model, or a tokenizer's file: tokenizer.json, tokenizer.model (SentencePiece or ranks), *.tiktoken, vocab.json beside merges.txt, or vocab.txt." placeholder:"PATH"`
	Special   bool   `env:"-" help:"Take special tokens in a text for what they are; without it they are text."`
	Decode    bool   `env:"-" help:"Read {\"ids\"} and write {\"text\"} where that is UTF-8, else {\"bytes_b64\"}; special tokens are written as their text."`
	Pattern   string `env:"-" help:"What splits texts before a rank file's merges: gpt2, cl100k, o200k, llama3, llama4, qwen2, qwen3.5, kimi, tekken, deepseek3 or a regular expression; by default the number of ranks tells." placeholder:"REGEX"`
}

// Help is printed below the flags.
func (c *TokenizeCmd) Help() string {
	return `Reads JSON lines {"text"} or {"bytes_b64"} and writes {"ids"} for each; no token is put before or after. It ends at the first line that it cannot use.`
}

// Run reads lines and answers each with one.
func (c *TokenizeCmd) Run(ctx context.Context, e *cli.Env) error {
	return cli.UntilSignal(ctx, func() error { return c.answer(e) })
}

func (c *TokenizeCmd) answer(e *cli.Env) error {
	if c.Decode && c.Special {
		return cli.Usage(errors.New("--special is of texts, and --decode reads ids; leave one of them out"))
	}
	t, err := tokenizer.OpenPath(c.Tokenizer, c.Pattern)
	if err != nil {
		return cli.Usage(err)
	}
	if c.Decode {
		err = tokenize.Decode(t, e.In, e.Out)
	} else {
		err = tokenize.Encode(t, c.Special, e.In, e.Out)
	}
	if errors.Is(err, tokenize.ErrLine) {
		return cli.Usage(err)
	}
	return err
}
