package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/switchyard/switchyard/pkg/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// PromptCmd sends one prompt.
type PromptCmd struct {
	Text []string `arg:"" optional:"" help:"The prompt; without it stdin is read."`

	Model       string        `default:"demo" help:"Model to ask." placeholder:"NAME"`
	MaxTokens   *int32        `help:"Most tokens to generate." placeholder:"N"`
	Temperature *float64      `help:"Sampling temperature; 0 is greedy." placeholder:"T"`
	TopP        *float64      `help:"Sample from the likeliest tokens with this probability mass, 0 to 1." placeholder:"P"`
	TopK        *int32        `help:"Sample from this many likeliest tokens; 0 is all." placeholder:"K"`
	Seed        *uint32       `help:"Seed of the sampling; the same seed gives the same answer." placeholder:"N"`
	Stop        []string      `sep:"none" help:"Stop before this text; may be given several times." placeholder:"TEXT"`
	Chat        bool          `help:"Send the prompt as a user's message through the model's chat template."`
	JSON        bool          `name:"json" help:"Print one JSON chunk a line."`
	Deadline    time.Duration `help:"Give up after this time, such as 30s; 0 is never." placeholder:"TIME"`
	RequestID   string        `help:"Name of the request; the same id again streams the same answer." placeholder:"ID"`
}

// maxStdin bounds what is read from stdin, in bytes; no server takes more in one message.
const maxStdin = 64 << 20

// Run streams the answer to stdout as it comes. A signal cancels the request.
func (c *PromptCmd) Run(ctx context.Context, e *env) error {
	text, err := c.text(e)
	if err != nil {
		return err
	}
	conn, err := e.connect(ctx, "prompt")
	if err != nil {
		return err
	}
	defer conn.Close()
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	line := e.progress()
	line.Set("waiting for the first token…")
	defer line.Clear()
	producer := client.New(conn.NATS(), client.Settings{Prefix: e.Prefix, Model: c.Model})
	stream, err := producer.Prompt(asking, c.prompt(text))
	if err == nil {
		err = c.stream(stream, cancel, e, line)
	}
	if ctx.Err() != nil && isCancelled(err) {
		return errInterrupted
	}
	return err
}

// text is the prompt from the arguments or from stdin.
func (c *PromptCmd) text(e *env) (string, error) {
	if len(c.Text) > 0 {
		return strings.Join(c.Text, " "), nil
	}
	if isTerminal(e.in) {
		return "", usage(errors.New("no prompt: give it as an argument, such as switchyard prompt 'Once upon a time', or on stdin"))
	}
	data, err := io.ReadAll(io.LimitReader(e.in, maxStdin+1))
	switch {
	case err != nil:
		return "", usage(fmt.Errorf("reading the prompt from stdin: %w", err))
	case len(data) > maxStdin:
		return "", usage(fmt.Errorf("the prompt on stdin has more than %d bytes", maxStdin))
	case len(data) == 0:
		return "", usage(errors.New("the prompt on stdin is empty"))
	}
	return string(data), nil
}

func (c *PromptCmd) prompt(text string) *pb.Prompt {
	p := &pb.Prompt{
		RequestId: c.RequestID, MaxTokens: c.MaxTokens, Temperature: c.Temperature,
		TopP: c.TopP, TopK: c.TopK, Seed: c.Seed, Stop: c.Stop,
	}
	if c.Chat {
		p.Messages = []*pb.ChatMessage{{Role: "user", Content: text}}
	} else {
		p.Text = text
	}
	if c.Deadline > 0 {
		p.Deadline = time.Now().Add(c.Deadline).Format(time.RFC3339Nano)
	}
	return p
}

// stream prints the chunks. When they cannot be printed the request is
// cancelled: nobody reads it.
func (c *PromptCmd) stream(s *client.Stream, cancel context.CancelFunc, e *env, line *progress) (err error) {
	out := &chunkPrinter{w: e.out, json: c.JSON}
	for chunk, streamErr := range s.Chunks() {
		line.Clear()
		switch {
		case streamErr != nil:
			err = errors.Join(err, streamErr)
		case err == nil:
			if err = out.print(chunk); err != nil {
				cancel()
			} else if chunk.FinishReason != "" {
				err = client.Failure(chunk)
			}
		}
	}
	return errors.Join(err, out.finish())
}

// isCancelled says whether a request ended because it was cancelled.
func isCancelled(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Code == client.CodeCancelled
}

// chunkPrinter writes an answer as text or as JSON lines.
type chunkPrinter struct {
	w    io.Writer
	json bool
	last byte // of the text so far
}

var chunkJSON = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}

func (p *chunkPrinter) print(c *pb.Chunk) error {
	if p.json {
		return p.printJSON(c)
	}
	if c.Text == "" {
		return nil
	}
	p.last = c.Text[len(c.Text)-1]
	if _, err := io.WriteString(p.w, c.Text); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func (p *chunkPrinter) printJSON(c *pb.Chunk) error {
	data, err := chunkJSON.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding a chunk: %w", err)
	}
	var line bytes.Buffer // protojson varies its white space on purpose
	if err := json.Compact(&line, data); err != nil {
		return fmt.Errorf("encoding a chunk: %w", err)
	}
	line.WriteByte('\n')
	if _, err := p.w.Write(line.Bytes()); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// finish ends the last line of text.
func (p *chunkPrinter) finish() error {
	if p.last == 0 || p.last == '\n' {
		return nil
	}
	if _, err := io.WriteString(p.w, "\n"); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}
